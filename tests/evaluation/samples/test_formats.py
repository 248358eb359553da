"""Files as other tools write them; those of inspect_ai and lm-evaluation-harness were written by their own writers."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from coe_agents.errors import SamplesError
from coe_agents.evaluation import Samples
from tests.evaluation.invented import row, write

FILES = Path(__file__).parent / "files"
COLUMNS = {"id": "qid", "question": "prompt", "agent": "model", "text": "response"}
(ARITHMETIC,) = FILES.glob("small-model/samples_small_arithmetic_*")
(CAPITALS,) = FILES.glob("small-model/samples_small_capitals_*")
(TAU,) = FILES.glob("tool-calling-*")


def read(path, **options):
    """Returns of each question the references, and of each response agent, index, answer or text, and verdict."""
    with Samples([path], **options) as samples:
        return {
            question.text: (
                list(question.references),
                [
                    (each["agent"], each["index"], each["answer"] or each["text"], each["correct"])
                    for each in question.responses
                ],
            )
            for question in samples
        }


FRANCE, ITALY = "What is the capital of France?", "What is the capital of Italy?"
OWN = {
    FRANCE: (["Paris"], [("a", 0, "Paris", None), ("b", 0, "Paris", None), ("c", 0, "Lyon", None)]),
    ITALY: (["Rome"], [("a", 0, "Milan", None), ("b", 0, "Rome", None), ("c", 0, "Milan", None)]),
}


@pytest.mark.parametrize("name", ["own.samples.jsonl", "own.json", "own.csv", "own.parquet"])
def test_own_fields_in_any_table(name):
    assert read(FILES / name) == OWN


def test_other_names_are_mapped_and_gold_is_a_reference():
    assert read(FILES / "other.csv", columns=COLUMNS) == OWN


def test_semicolons_separate_where_they_stand_most_often(tmp_path):
    path = tmp_path / "s.csv"
    path.write_bytes(b'\xef\xbb\xbfid;agent;text;gold\r\nq1;a;"Paris; 3,5";Paris\r\n')
    assert read(path)[""] == (["Paris"], [("a", 0, "Paris; 3,5", None)])


def test_responses_of_a_table_without_an_index_are_numbered(tmp_path):
    path = tmp_path / "gpt.csv"
    path.write_text("id,text\nq1,Paris\nq1,Lyon\n")  # nor is the model named
    assert read(path)[""] == ([], [("gpt", 0, "Paris", None), ("gpt", 1, "Lyon", None)])


def test_lm_evaluation_harness_of_generated_texts():
    # two filters wrote the same two responses to each question
    pears, pens = read(ARITHMETIC).values()
    assert pears == (["2"], [("small-model", 0, "2", None), ("small-model", 1, "3", None)])
    assert pens == (["12"], [("small-model", 0, "12", None), ("small-model", 1, "12", None)])


def test_lm_evaluation_harness_of_choices():
    assert read(CAPITALS) == {
        FRANCE: (["Paris"], [("small-model", 0, "Paris", True)]),
        ITALY: (["Rome"], [("small-model", 0, "Milan", False)]),  # -.9 against -1.1
    }


def test_batch_output_is_joined_with_its_questions():
    model = "gpt-4o-mini-2024-07-18"
    read_questions = read(FILES / "batch_output.jsonl", questions=FILES / "batch_questions.csv")
    assert read_questions == {
        FRANCE: (
            ["Paris"],
            [(model, n, text, None) for n, text in enumerate(("Paris", "Paris", "Lyon"))],
        ),
        ITALY: (
            ["Rome"],
            [(model, n, text, None) for n, text in enumerate(("Milan", "Rome", "Milan"))],
        ),
        "What is the capital of Spain?": (["Madrid"], []),
    }


def test_batch_output_without_questions_says_what_is_missing():
    with pytest.raises(
        SamplesError, match=r'"question" and "references" are missing.* "questions"'
    ):
        read(FILES / "batch_output.jsonl")


def test_trajectories_of_tau_bench_are_their_actions_without_what_was_only_read():
    with Samples([TAU]) as samples:
        first, _ = samples
    assert [each["calls"] for each in first.responses] == [
        [{"name": "cancel_reservation", "args": {"reservation_id": "NO6JO3"}}]
    ] * 3
    assert first.responses[0]["agent"] == "tool-calling-gpt-4o-0.0"
    assert [each["correct"] for each in first.responses] == [True, True, True]


def test_passages_are_for_claims():
    with pytest.raises(SamplesError, match="--claims overlap"):
        read(FILES / "selfcheckgpt.jsonl")


def test_without_the_library_a_log_of_inspect_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(ImportError, match="pip install inspect-ai"):
        read(FILES / "capitals.eval")


def first_record(path, **changed):
    return {**json.loads(path.read_text().splitlines()[0]), **changed}


@pytest.mark.parametrize(
    ("path", "changed", "said"),
    [
        (ARITHMETIC, {"resps": []}, '"resps" must hold lists, none of which is empty'),
        (ARITHMETIC, {"resps": [[]]}, '"resps" must hold lists, none of which is empty'),
        (ARITHMETIC, {"doc": {}, "arguments": {}}, '"arguments" must hold lists'),
        (CAPITALS, {"resps": [[[-1.0]], [[-2.0]]]}, "must be of one length"),
    ],
)
def test_a_list_of_another_tool_that_is_empty_is_named_with_its_place(
    tmp_path, path, changed, said
):
    record = first_record(path, **changed)
    with pytest.raises(SamplesError, match=rf"s\.jsonl:1: .*{said}"):
        read(write(tmp_path / "s.jsonl", [record]))


def test_what_no_filter_took_from_a_response_is_the_response(tmp_path):
    record = first_record(ARITHMETIC, resps=[["2"]], filtered_resps=[])
    ((_, (said,)),) = read(write(tmp_path / "s.jsonl", [record])).values()
    assert said[2] == "2"


def test_a_reply_without_choices_is_a_failed_request(tmp_path):
    record = first_record(FILES / "batch_output.jsonl")
    record["response"]["body"]["choices"] = []
    path = write(tmp_path / "s.jsonl", [record])
    with Samples([path], questions=FILES / "batch_questions.csv") as samples:
        (question,) = samples
    assert [each["error"] for each in question.failures] == ["the model gave no reply"]


def logged(**changed):
    """Returns a sample of a log as inspect_ai reads it."""
    said = SimpleNamespace(message=SimpleNamespace(text="Paris"), stop_reason="stop", logprobs=None)
    fields = {"id": 7, "input": FRANCE, "target": "Paris", "error": None, "scores": None}
    fields["output"] = SimpleNamespace(choices=[said])
    return SimpleNamespace(**{**fields, **changed})


@pytest.fixture
def read_log(monkeypatch):
    """Reads samples as if they stood in a log; without inspect_ai, which tests/inspect_log.py tries."""

    def read_samples(*found):
        def read_eval_log_samples(*_, **__):
            for each in found:
                if isinstance(each, Exception):
                    raise each
                yield each

        header = SimpleNamespace(eval=SimpleNamespace(model="m"))
        library = SimpleNamespace(
            read_eval_log=lambda *_, **__: header, read_eval_log_samples=read_eval_log_samples
        )
        monkeypatch.setitem(sys.modules, "inspect_ai", SimpleNamespace())
        monkeypatch.setitem(sys.modules, "inspect_ai.log", library)
        return read(FILES / "capitals.eval")

    return read_samples


def test_the_question_of_a_logged_sample_is_its_text_or_the_last_message_of_a_user(read_log):
    said = [SimpleNamespace(role=role, text=role) for role in ("system", "user", "assistant")]
    assert list(read_log(logged(), logged(id=8, input=said))) == [FRANCE, "user"]


@pytest.mark.parametrize("messages", [[], [SimpleNamespace(role="system", text="Be brief.")]])
def test_a_logged_sample_without_a_message_of_a_user_is_named(read_log, messages):
    with pytest.raises(
        SamplesError, match=r"capitals\.eval: record 2: the \"input\" of sample 8 must be a text"
    ):
        read_log(logged(), logged(id=8, input=messages))


def test_a_logged_sample_without_a_reply_is_a_failed_request(read_log):
    assert read_log(logged(output=SimpleNamespace(choices=[]))) == {FRANCE: (["Paris"], [])}


def test_a_log_that_its_library_cannot_read_is_named(read_log):
    with pytest.raises(
        SamplesError, match=r"capitals\.eval cannot be read by inspect_ai: KeyError"
    ):
        read_log(KeyError("samples"))


UNREADABLE = (
    # none is recognised: one error names all that is missing
    (
        [{"prompt": "Who?", "reply": "Ann"}] * 30,
        "s.jsonl",
        (
            "JSON Lines with the fields prompt, reply",
            '"id"',
            '"agent"',
            '"index"',
            '"text"',
            "docs/your_own_files.md",
            '"columns"',
        ),
    ),
    # one line is faulty
    (
        [row(), {"id": "q2", "index": -1, "logprob": 3}],
        "s.jsonl:2",
        ('"agent" is missing', '"text" is missing', '"index" must be', '"logprob" must be'),
    ),
)
"""Rows that cannot be read, the place that is named once, and all that is said of it."""


@pytest.mark.wording
def test_what_is_not_recognised_and_a_faulty_line_are_named_once_with_all_faults(tmp_path):
    for rows, place, parts in UNREADABLE:
        path = write(tmp_path / "s.jsonl", rows)
        with pytest.raises(SamplesError) as raised:
            read(path)
        said = str(raised.value)
        assert said.count(place) == 1
        for part in parts:
            assert part in said


@pytest.mark.parametrize("rows", [rows for rows, *_ in UNREADABLE])
def test_what_cannot_be_read_is_an_error_of_samples(tmp_path, rows):
    with pytest.raises(SamplesError):
        read(write(tmp_path / "s.jsonl", rows))


def test_an_empty_error_is_none(tmp_path):
    assert read(write(tmp_path / "s.jsonl", [row(error="")])) == {
        "": ([], [("a", 0, "Paris", None)])
    }


@pytest.mark.parametrize("name", ["gold", "reference", "target"])
@pytest.mark.parametrize("value", ["Paris", ["Paris"]])
def test_references_have_the_names_that_others_give_them(tmp_path, name, value):
    path = write(tmp_path / "s.jsonl", [row(**{name: value})])
    assert read(path)[""][0] == ["Paris"]


@pytest.mark.slow
def test_a_record_beyond_the_bound_is_named(tmp_path):
    for size in (20, 40):
        path = write(tmp_path / "s.jsonl", [row(), row("q2", text="x" * size * 2**20)])
        with pytest.raises(
            SamplesError, match=r"s\.jsonl cannot be read: line 2 is longer than 16 MB"
        ):
            read(path)


def test_a_packed_file_has_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("coe_agents.evaluation.tables.MOST_UNPACKED", 1000)
    import gzip

    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * 2000))
    with pytest.raises(SamplesError, match="Unpack it first"):
        read(path)


def test_an_unpaired_surrogate_a_second_name_and_unknown_fields_are_kept(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text('{"id": "\\ud800", "agent": "a", "index": 0, "text": "x", "mine": [1e400]}\n')
    with Samples([path]) as samples:
        (question,) = samples
    assert question.id == "\ud800"
    assert question.responses[0]["mine"] == [float("inf")]


def test_a_pattern_names_files_and_a_name_with_brackets_is_one(tmp_path):
    for name in ("a[1].jsonl", "b.jsonl"):
        write(tmp_path / name, [row(agent=name)])
    with Samples([tmp_path / "*.jsonl"]) as samples:
        assert len(samples.paths) == 2
    with Samples([tmp_path / "a[1].jsonl"]) as samples:
        (question,) = samples
    assert [each["agent"] for each in question.responses] == ["a[1].jsonl"]


def test_no_temporary_file_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    with Samples([write(tmp_path / "s.jsonl", [row()])]):
        assert list((tmp_path / "scratch").iterdir())
    with pytest.raises(SamplesError):
        Samples([write(tmp_path / "s.jsonl", [{}])])
    assert not list((tmp_path / "scratch").iterdir())
