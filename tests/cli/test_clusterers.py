"""The clusterers that ask a server: from the file to the real client, in a graph and under `doctor`."""

import re

import pytest

from coe_agents.config.build import create_clusterer
from coe_agents.config.schema import load_config
from coe_agents.doctor.diagnosis import examine
from tests.cli.command import run
from tests.cli.test_sample import AGENT
from tests.doctor.test_diagnosis import POLICY, shown
from tests.servers import answering, completion, served

CLUSTERER = """\
[clusterer]
{clusterer}
provider = "openai"
model = "m"
base_url = "{server}"
options = {{ max_retries = 0 }}
"""
LLM = 'kind = "llm"'
EMBEDDING = 'kind = "embedding"\nthreshold = 0.9'
NOBODY = "http://127.0.0.1:9/v1"


@pytest.fixture
def written(tmp_path):
    def written(*, clusterer, server, agent=NOBODY, more=""):
        path = tmp_path / "coe.toml"
        agents = AGENT.format(name="a", url=agent, more="seed = 0") + CLUSTERER.format(
            clusterer=clusterer, server=server
        )
        path.write_text(agents + POLICY + more)
        return path

    return written


@pytest.fixture
def examined(written):
    def examined(clusterer, url):
        with served() as agent:
            return examine(load_config(written(clusterer=clusterer, server=url, agent=agent.url)), timeout=300.0)

    return examined


def by_last_word(body):
    """Judges as a model would that looks at the last word only."""
    premise, hypothesis = re.findall("<answer>(.*?)</answer>", body["messages"][-1]["content"])
    same = premise.rstrip(".").split()[-1] == hypothesis.rstrip(".").split()[-1]
    return completion("entailment" if same else "contradiction")


@pytest.mark.parametrize("clusterer", [LLM, EMBEDDING])
def test_a_key_goes_where_the_file_says_and_no_other_key_does(clusterer, written, monkeypatch):
    def key(config):
        made = create_clusterer(config)
        client = made.model.model if clusterer == LLM else made.embeddings
        return client.openai_api_key.get_secret_value()

    monkeypatch.setenv("OPENAI_API_KEY", "the-users-own")
    monkeypatch.setenv("COE_TEST_KEY", "the-named-one")
    assert key(load_config(written(clusterer=clusterer, server=NOBODY))) == "none"
    named = f'{clusterer}\napi_key_env = "COE_TEST_KEY"'
    assert key(load_config(written(clusterer=named, server=NOBODY))) == "the-named-one"


def test_doctor_puts_the_obvious_to_a_judge(examined):
    with answering(by_last_word) as judge:
        findings = examined(LLM, judge.url)
    report = findings.clusterer
    assert (report.model, report.labels, report.device, report.n_unclear) == ("m", None, None, 0)
    assert (report.entailed.label, report.contradicted.label) == ("entailment", "contradiction")
    assert (findings.problems, findings.notes) == ([], [])
    assert "obvious entailment entailment (1.000)" in " ".join(shown(findings).split())
    assert findings.to_json()["entailment"]["contradicted"] == {"label": "contradiction", "probability": 1.0}
    assert findings.to_json()["embedding"] is None


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("entailment", "does not entail"),
        ("contradiction", "but the model says contradiction"),
        ("Perhaps.", "for 2 of 2 pairs the model states none of the labels"),
    ],
)
def test_a_judge_that_misses_the_obvious_is_a_problem(reply, says, examined):
    with answering(lambda body: completion(reply)) as judge:
        findings = examined(LLM, judge.url)
    (problem,) = findings.problems
    assert problem.part == f"entailment at {judge.url} m"
    assert says in problem.error
    assert "more able chat model" in problem.remedy
    assert findings.notes == []


def test_doctor_shows_on_which_side_of_the_threshold_the_obvious_lies(examined):
    with served() as server:
        findings = examined(EMBEDDING, server.url)
    # the paraphrase has the same six words in another order, the other answer five of them
    assert (findings.clusterer.paraphrase, findings.clusterer.other) == (1.0, 0.8333)
    assert findings.problems == []
    assert len(server.requests) == 1
    assert "obvious paraphrase 1.000, at or above the threshold of 0.9" in " ".join(shown(findings).split())
    assert "another answer 0.833, below the threshold of 0.9" in " ".join(shown(findings).split())
    assert findings.to_json()["embedding"]["other"] == 0.8333
    assert findings.to_json()["entailment"] is None


def test_a_threshold_that_does_not_part_the_obvious_is_a_problem(examined):
    with served() as server:
        of_words = server.embeddings

        def embeddings(body):
            reply = of_words(body)
            for item, vector in zip(reply["data"], [[1, 0], [0.8, 0.6], [0.6, 0.8]], strict=True):
                item["embedding"] = vector
            return reply

        server.embeddings = embeddings
        low, high = (examined(EMBEDDING.replace("0.9", limit), server.url).problems[0] for limit in ("0.5", "0.9"))
    assert low.part == f"embedding at {server.url} m"
    assert "another answer has a cosine of 0.600" in low.error
    assert "Raise the threshold; a paraphrase has" in low.remedy
    assert "a paraphrase has a cosine of 0.800" in high.error
    assert "Lower the threshold; another answer has" in high.remedy


@pytest.mark.parametrize(("clusterer", "part"), [(LLM, "entailment"), (EMBEDDING, "embedding")])
def test_a_server_that_is_not_there_ends_the_command_with_1(clusterer, part, written):
    def tried(*command):
        with served() as agent:
            done = run(*command, "--config", written(clusterer=clusterer, server=NOBODY, agent=agent.url))
        return done.returncode, " ".join(done.stdout.split()), done.stderr

    code, out, _ = tried("doctor")
    assert code == 1
    assert f"problem: {part} at {NOBODY}: " in out
    assert "ConnectionError: Connection error" in out
    assert "Check that a server listens" in out
    code, out, err = tried("ask", "Which city?")
    assert (code, out) == (1, "")
    assert "ClusteringError: the responses could not be clustered: " in err
    assert 'Check the model that is asked for it; "coe-agents doctor" tries it alone' in err
    assert "Traceback" not in err
