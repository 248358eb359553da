import gzip
import json

import pytest

from coe_agents.errors import ConfigurationError, DatasetError
from coe_agents.evaluation.datasets.sources import PUBLISHED, Published, open_questions
from tests.evaluation.datasets.test_records import HUB_SQUAD, HUB_TRIVIA, OFFICIAL_TRIVIA, SQUAD


def opened(source, **options):
    return open_questions(source, seed=0, **options)


def written(path, value, **options):
    path.write_text(json.dumps(value, **options))
    return str(path)


def squad_document(*qas):
    paragraphs = [{"context": HUB_SQUAD["context"], "qas": list(qas)}]
    return {
        "version": "v2.0",
        "data": [{"title": "", "paragraphs": []}, {"title": "Paris", "paragraphs": paragraphs}],
    }


QA = {
    "id": "56be",
    "question": HUB_SQUAD["question"],
    "answers": [{"text": "Paris"}, {"text": "the city Paris"}],
}


def test_squad_as_published(tmp_path):
    impossible = {"id": "2", "question": "Who?", "answers": [], "is_impossible": True}
    found = opened(written(tmp_path / "dev-v2.0.json", squad_document(QA, impossible)))
    first, second = sorted(found.questions, key=lambda question: question.id == "2")
    assert (first, first.answerable, second.answerable) == (SQUAD, True, False)
    trivia = opened(
        written(tmp_path / "wikipedia-dev.json", {"Data": [OFFICIAL_TRIVIA], "Domain": "Wikipedia"})
    )
    assert [question.id for question in trivia.questions] == ["tc_33"]
    twice = opened(written(tmp_path / "twice.json", [HUB_TRIVIA, HUB_TRIVIA]))
    assert (twice.questions.n_records, len(twice.questions)) == (2, 1)


FIRST, SAME = (
    '{"question": "a", "references": []}\n',
    '{"id": "1", "question": "a", "references": []}\n',
)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("mine.jsonl", FIRST + '{"question": "b", "a": 1}\n', r':2: "references" is missing'),
        ("mine.jsonl", FIRST + '{"question": ', ":2: this is not JSON"),
        (
            "mine.jsonl",
            FIRST + '{"question": "b", "answer": ["c"]}',
            ':2: this record is of the kind "nq_',
        ),
        (
            "mine.jsonl",
            SAME * 2 + SAME.replace('"a"', '"b"'),
            "mine.jsonl: questions of one id must be the same",
        ),
        ("mine.jsonl", "\n", "holds no record"),
        (
            "odd.json",
            squad_document(QA, QA | {"question": 1}),
            r'\[1\].paragraphs\[0\].qas\[1\]: "question" must be',
        ),
        ("odd.json", {"data": {}}, 'data: "data" must be a list'),
        (
            "odd.json",
            {"data": [{"paragraphs": [{"qas": []}]}]},
            r'data\[0\]\.paragraphs\[0\]: "context" is missing',
        ),
        ("odd.json", {"data": [[]]}, r'data\[0\]: "paragraphs" is missing'),
        ("odd.json", '"text"', 'odd.json: "data" is missing'),
    ],
)
def test_the_line_or_the_record_at_fault_is_named(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DatasetError, match=said):
        opened(str(path))


def test_what_cannot_be_read_is_said(tmp_path):
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"question": "a"}')[:-4])
    (tmp_path / "notes.txt").write_text("")
    for name, said in (
        ("cut.jsonl.gz", "cannot be read"),
        ("notes.txt", "is not one of .jsonl, .json"),
    ):
        with pytest.raises(DatasetError, match=said):
            opened(str(tmp_path / name))
    with pytest.raises(ConfigurationError, match='"trivia" is neither a dataset nor a file'):
        opened("trivia")
    with pytest.raises(ConfigurationError, match='"split" must be omitted for a file'):
        opened(str(tmp_path / "notes.txt"), split="test")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder laid out as the hub lays out a dataset: a card that names configurations, and a Parquet file a split."""
    import datasets

    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "trivia_qa"
    for config, rows in (
        ("rc.nocontext", [HUB_TRIVIA] * 2),
        ("rc", [{**HUB_TRIVIA, "question_id": "other"}]),
    ):
        (folder / config).mkdir(parents=True)
        datasets.Dataset.from_list(rows).to_parquet(
            folder / config / "validation-00000-of-00001.parquet"
        )
    card = "".join(
        f"- config_name: {config}\n  data_files:\n  - split: validation\n    path: {config}/validation-*\n"
        for config in ("rc.nocontext", "rc")
    )
    (folder / "README.md").write_text(f"---\nconfigs:\n{card}---\n")
    return folder


def test_a_name_of_the_hub_is_read_by_its_configuration_and_split(hub, monkeypatch):
    monkeypatch.setitem(PUBLISHED, "triviaqa", Published(str(hub), PUBLISHED["triviaqa"].config))
    found = opened("triviaqa")
    assert (found.questions.n_records, [question.id for question in found.questions]) == (
        2,
        ["tc_33"],
    )
    assert found.source == f"{hub} (rc.nocontext), validation"
    with pytest.raises(
        DatasetError,
        match=r'nocontext\), train cannot be loaded: ValueError: Unknown split "train"',
    ):
        opened("triviaqa", split="train")
