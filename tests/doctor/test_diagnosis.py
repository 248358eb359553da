import io
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from rich.console import Console

from coe_agents.cli.display.settings import show_examination
from coe_agents.clustering import EmbeddingSimilarity
from coe_agents.config.schema import load_config
from coe_agents.doctor import diagnosis
from coe_agents.doctor.diagnosis import examine
from coe_agents.errors import ConfigurationError
from tests.cli.command import run
from tests.cli.test_sample import AGENT, config, proposing
from tests.servers import Served, answering, running, served

NOBODY = "http://127.0.0.1:9/v1"


def examined(folder, *urls, clusterer="normalized", first="", more="", timeout=300.0):
    own = f"seed = 0\noptions = {{ max_retries = 0 }}\n{first}"
    agents = (
        AGENT.format(name=f"agent-{place}", url=url, more=own) for place, url in enumerate(urls)
    )
    path = config(folder, *agents, clusterer=f'kind = "{clusterer}"', max_coe=0.5, more=more)
    return examine(load_config(path), timeout=timeout)


def shown(findings):
    console = Console(file=io.StringIO(), width=100, highlight=False)
    show_examination(findings, console=console)
    return console.file.getvalue()


def test_a_server_that_does_it_all(tmp_path):
    with served() as server:
        findings = examined(tmp_path, server.url)
    report = findings.agents["agent-0"]
    assert (report.n_asked, report.n_returned, report.n_requests, report.n_in_one_request) == (
        3,
        3,
        1,
        True,
    )
    assert (report.logprobs, report.n_distinct, report.n_empty) == ("all", 3, 0)
    assert (report.input_tokens, report.output_tokens) == (11, 6)
    assert (report.load_seconds, report.device) == (None, None)
    assert len(server.requests) == 1  # each agent is called once
    assert server.requests[0]["messages"][-1]["content"] == "What is the capital of France?"
    assert (findings.problems, findings.notes, findings.late) == ([], [], False)
    assert findings.device == "none: no model runs in this process"
    out = shown(findings)
    assert "agent-0  yes      -" in out
    assert out.rstrip().endswith("No problems.")


@pytest.mark.parametrize("calls", [True, False])
def test_a_server_that_ignores_tools_is_a_problem_where_tools_are_configured(tmp_path, calls):
    def answer(body):
        called = "{}" if calls and "tools" in body else None
        return proposing(*[called] * body.get("n", 1), name="get_weather")

    with answering(answer) as server:
        findings = examined(
            tmp_path, server.url, clusterer="actions", first='on_greedy = "trust"\n'
        )
        assert (
            examined(tmp_path, server.url, first='on_greedy = "trust"\n')
            .agents["agent-0"]
            .calls_tools
            is None
        )
    assert findings.agents["agent-0"].calls_tools is calls
    said = [] if calls else ["asked to call a tool, it called none: its server may ignore tools"]
    assert [problem.error for problem in findings.problems] == said


def test_log_probabilities_are_needed_only_where_they_count(tmp_path):
    with served(ignores_logprobs=True) as server:
        assert examined(tmp_path, server.url).problems == []
        findings = examined(tmp_path, server.url, more='[graph]\nweighting = "probability"\n')
    assert findings.agents["agent-0"].logprobs == "none"
    (problem,) = findings.problems
    assert "no log-probabilities" in problem.error
    assert 'Set weighting = "auto"' in problem.remedy


def test_an_agent_whose_temperature_has_no_effect_is_a_problem_unless_that_is_provided_for(
    tmp_path,
):
    with running(Served(("Quito",), ignores_logprobs=True, ignores_temperature=True)) as server:
        findings = examined(tmp_path, server.url)
        known = examined(tmp_path, server.url, first='on_greedy = "count_once"\n')
        trusted = examined(tmp_path, server.url, first='on_greedy = "trust"\n')
        assert len(server.probes) == 1
    (problem,) = findings.problems
    assert problem.part == f"agent agent-0 at {server.url}"
    equal = "its temperature of 1 has no effect: it gave the same response 3 times, and its 3 replies to a request"
    assert problem.error.startswith(equal)
    assert problem.error.endswith("so its responses are excluded")
    assert problem.remedy.startswith("Use a server that samples, such as vLLM")
    report = findings.agents["agent-0"]
    assert (
        report.ignores_temperature,
        report.n_returned,
        report.n_requests,
        report.n_distinct,
    ) == (True, 3, 1, 1)
    assert (report.logprobs, report.input_tokens, report.output_tokens) == ("none", 22, 12)
    assert not findings.to_json()["ok"]
    assert shown(findings).rstrip().endswith("1 problem.")
    for other, counts in (
        (known, "its responses count as one"),
        (trusted, "all its responses count"),
    ):
        (note,) = other.notes
        assert equal in note
        assert note.endswith(counts)
        assert other.problems == []
        assert "No problems." not in shown(other)
        assert other.agents["agent-0"].ignores_temperature


def test_agents_that_share_a_model_a_family_or_a_server_are_named(tmp_path):
    models = {"a": "org/Qwen3-8B", "b": "qwen2.5:7b", "c": "llama3.2", "d": "qwen2.5:7b"}
    servers = {"a": "x", "b": "y", "c": "y", "d": "z"}
    agents = ""
    for name, model in models.items():
        agents += f'[[agents]]\nname = "{name}"\nprovider = "openai"\nmodel = "{model}"\n'
        agents += f'base_url = "http://{servers[name]}/v1"\n'
    path = config(tmp_path, agents, clusterer='kind = "normalized"')
    assert diagnosis.examine(load_config(path), timeout=0.1).notes == [
        "a, b, d share the family qwen: they may err together",
        "b, d share the model qwen2.5:7b: they may err together",
        "b, c share the server http://y/v1: they may err together",
    ]


def test_nothing_but_empty_responses_is_a_problem(tmp_path):
    with served(texts=("", " ")) as server:
        (problem,) = examined(tmp_path, server.url).problems
    assert problem.error == "all its responses are empty"
    assert 'Raise "max_tokens"' in problem.remedy


def test_an_agent_that_hangs_costs_no_more_than_its_time(tmp_path):
    hold = threading.Event()
    with served() as slow, served() as quick:
        answer = slow.answer
        slow.answer = lambda body: (hold.wait(120), answer(body))[1]
        start = time.monotonic()
        findings = examined(tmp_path, slow.url, quick.url, timeout=2.0)
        took = time.monotonic() - start
        hold.set()
    assert took < 60
    assert findings.late
    assert findings.agents["agent-1"].n_returned == 3
    (problem,) = findings.problems
    assert problem.part.startswith("agent agent-0")
    assert problem.error == "no reply within 2 s"
    assert "raise --timeout" in problem.remedy


BUSY = """
import sys
import torch
from coe_agents.cli import main
from coe_agents.doctor import diagnosis

def compute(agent, **_):
    while True:
        torch.randn(700, 700) @ torch.randn(700, 700)

diagnosis.probe_agent = compute
sys.argv = ["coe-agents", "doctor", "--timeout", "0.5", "--json"]
main()
"""


@pytest.mark.slow
def test_the_command_ends_in_order_though_a_model_computes_on():
    # Python aborts (exit 134) where it finds a thread in torch's native code at its end
    done = subprocess.run(
        [sys.executable, "-c", BUSY], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["problems"][0]["error"] == "no reply within 0.5 s"


def test_a_mistake_in_the_file_comes_first(tmp_path, monkeypatch):
    def called(*_):
        raise AssertionError("an agent was called")

    monkeypatch.setattr("coe_agents.doctor.diagnosis.probe_agent", called)
    with pytest.raises(ConfigurationError, match="min_agents"):
        examined(tmp_path, NOBODY, more="[graph]\nmin_agents = 2\n")


def test_versions_name_what_is_not_installed(monkeypatch):
    monkeypatch.setattr(diagnosis, "_PACKAGES", ("langgraph", "no-such-package"))
    found = diagnosis.versions()
    assert list(found) == ["python", "coe-agents", "langgraph", "no-such-package"]
    assert found["no-such-package"] is None
    assert found["langgraph"][0].isdigit()


def test_tinyworld_is_well():
    done = run("doctor", "--json")
    said = json.loads(done.stdout)
    assert said["ok"]
    assert said["problems"] == []
    assert set(said["agents"]) == {"tiny-llama", "tiny-qwen2", "tiny-mistral"}
    for agent in said["agents"].values():
        assert agent["reachable"]
        assert agent["n_in_one_request"]
        assert (agent["n_returned"], agent["logprobs"], agent["device"]) == (3, "all", "cpu")
        assert agent["load_seconds"] is not None  # 0.0 if this process has loaded it before
        assert agent["output_tokens"] > 0
    assert (said["clusterer"]["joins_paraphrase"], said["clusterer"]["joins_other"]) == (
        True,
        False,
    )
    assert said["clusterer"]["device"] == "cpu"
    assert set(said["versions"]) >= {
        "python",
        "coe-agents",
        "torch",
        "transformers",
        "langgraph",
        "langchain-core",
    }
    assert said["device"] == "cpu"


def test_threads_that_outlive_the_secret_of_a_process_are_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COE_GATE_SECRET", raising=False)
    with served() as server:
        assert not any("COE_GATE_SECRET" in note for note in examined(tmp_path, server.url).notes)
        (tmp_path / "langgraph.json").write_text("{}")
        assert any("COE_GATE_SECRET" in note for note in examined(tmp_path, server.url).notes)
        monkeypatch.setenv("COE_GATE_SECRET", "a secret of all processes")
        assert not any("COE_GATE_SECRET" in note for note in examined(tmp_path, server.url).notes)


class ByWords:
    """Embeddings that count words: texts that share them are near."""

    def __init__(self, *words):
        self.words = words

    def embed_documents(self, texts):
        return [[1.0, *(5.0 * text.count(word) for word in self.words)] for text in texts]


def put_to(words, threshold):
    """Returns what embeddings that count words make of obvious pairs at a threshold, the notes, and the problems."""
    clusterer = EmbeddingSimilarity(ByWords(*words), threshold=threshold)
    report = diagnosis.probe_of(clusterer)()
    *notes, on_pairs = diagnosis._notes_of_cosines(report)
    assert "these pairs are ours" in on_pairs
    assert "EmbeddingSimilarity.cosines" in on_pairs
    problems = list(diagnosis._faults_of_clusterer(report))
    return report, notes, problems


CITIES = ("Paris", "Lyon", "Canberra", "Sydney", "Tokyo")
WORDS = (*CITIES, "1912", "1913", "Austen", "Bront", "seven", "eight", "The")
"""By which obvious pairs that mean the same have cosines of at least 0.714, and others of at most 0.51."""


def test_a_threshold_between_the_cosines_of_obvious_pairs_is_well():
    report, (note,), problems = put_to(WORDS, 0.55)
    assert report.cosines == (0.714, 0.51)
    assert note.endswith("your threshold = 0.55 lies between them")
    assert problems == []


@pytest.mark.parametrize(
    ("threshold", "says"),
    [
        (0.4, "threshold = 0.4 is at most 0.51: it joins"),
        (0.95, "threshold = 0.95 is above 0.714: it tells apart"),
    ],
)
def test_a_threshold_that_does_not_lie_there_is_a_problem_with_one_that_does(threshold, says):
    report, (note,), (problem,) = put_to(WORDS, threshold)
    assert "threshold" not in note
    assert problem.error.startswith(says)
    assert problem.remedy.startswith("Set threshold = 0.61,")
    near = diagnosis._fault_of_threshold(replace(report, cosines=(0.842, 0.841)))
    assert near.remedy.startswith("Set threshold = 0.8415,")


NEAR = (*CITIES, "The", "in", "has")
"""By which sentences that differ in the one word that answers are the same, if it is a year or a number."""


def test_where_no_threshold_tells_them_apart_the_note_names_the_pairs_and_their_cosines():
    report, (note,), _ = put_to(NEAR, 0.84)
    assert "no threshold tells answers apart by this model" in note
    furthest, nearest = report.pairs
    assert furthest == ("1912", "The Titanic sank in 1912.")
    assert nearest == ("The Titanic sank in 1912.", "The Titanic sank in 1913.")
    lowest, highest = report.cosines
    assert f'"{furthest[0]}" and "{furthest[1]}" mean the same' in note
    assert f"a cosine of {lowest:g}" in note
    assert f'"{nearest[0]}" and "{nearest[1]}" do not, and have one of {highest:g}' in note


def test_a_threshold_that_joins_different_answers_is_a_problem_though_none_is_better():
    _, _, (problem,) = put_to(NEAR, 0.84)
    assert problem.error == (
        'threshold = 0.84 joins "The Titanic sank in 1912." and "The Titanic sank in 1913.", whose cosine is 1'
    )
    assert 'kind = "entailment"' in problem.remedy
    assert 'kind = "normalized"' in problem.remedy


def test_a_threshold_that_joins_nothing_wrongly_is_noted_where_none_tells_them_apart():
    report, _, _ = put_to(NEAR, 0.84)
    cautious = replace(report, cosines=(0.622, 0.923), threshold=0.93)
    assert diagnosis._fault_of_threshold(cautious) is None
    note, _ = diagnosis._notes_of_cosines(cautious)
    assert note.endswith(
        "Your threshold = 0.93 joins neither, so it tells apart much that means the same"
    )
