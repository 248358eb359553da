import re

import pytest

from coe_agents.config.build import create_agents, create_clusterer
from coe_agents.config.schema import load_config
from coe_agents.doctor.diagnosis import examine
from tests.cli.command import run
from tests.cli.test_sample import AGENT, config
from tests.doctor.test_diagnosis import shown
from tests.servers import answering, completion, served

ACCESS = 'provider = "openai"\nmodel = "m"\nbase_url = "{server}"\noptions.max_retries = 0'
LLM = 'kind = "llm"'
EMBEDDING = 'kind = "embedding"\nthreshold = 0.9'
NOBODY = "http://127.0.0.1:9/v1"


def written(folder, *, clusterer, server, agent=NOBODY):
    agent = AGENT.format(name="a", url=agent, more="seed = 0")
    return config(
        folder, agent, clusterer=f"{clusterer}\n{ACCESS.format(server=server)}", max_coe=0.5
    )


def examined(folder, clusterer, url):
    with served() as agent:
        return examine(
            load_config(written(folder, clusterer=clusterer, server=url, agent=agent.url)),
            timeout=300.0,
        )


def by_the_city(body):
    """Judges as a model would that looks at the city only."""
    premise, hypothesis = re.findall("<answer>(.*?)</answer>", body["messages"][-1]["content"])
    return completion(
        "entailment" if ("Paris" in premise) == ("Paris" in hypothesis) else "contradiction"
    )


@pytest.mark.parametrize("clusterer", [LLM, EMBEDDING])
def test_a_key_goes_where_the_file_says_and_no_other_key_does(clusterer, tmp_path, monkeypatch):
    def key(config):
        made = create_clusterer(config)
        client = made.model.model if clusterer == LLM else made.embeddings
        return client.openai_api_key.get_secret_value()

    monkeypatch.setenv("OPENAI_API_KEY", "the-users-own")
    monkeypatch.setenv("COE_TEST_KEY", "the-named-one")
    config = load_config(written(tmp_path, clusterer=clusterer, server=NOBODY))
    assert (
        key(config) == create_agents(config)[0].model().openai_api_key.get_secret_value() == "none"
    )
    named = f'{clusterer}\napi_key_env = "COE_TEST_KEY"'
    assert key(load_config(written(tmp_path, clusterer=named, server=NOBODY))) == "the-named-one"


@pytest.mark.parametrize("clusterer", [LLM, EMBEDDING])
def test_doctor_puts_the_obvious_to_a_clusterer(clusterer, tmp_path):
    with answering(by_the_city) as judge, served() as vectors:
        findings = examined(tmp_path, clusterer, (judge if clusterer == LLM else vectors).url)
    report = findings.clusterer
    # of embeddings, the paraphrase has the same six words in another order, the other answer five of them
    assert (report.model, report.device, report.joins_paraphrase, report.joins_other) == (
        "m",
        None,
        True,
        False,
    )
    assert findings.problems == []
    # nor do words in any order tell the other pairs apart
    n_notes = 2 if clusterer == EMBEDDING else 0
    assert ["osine" in note for note in findings.notes] == [True] * n_notes
    assert "clusterer m; " in " ".join(shown(findings).split())
    assert findings.to_json()["clusterer"]["joins_paraphrase"]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (
            "entailment",
            'it takes "The capital of France is Lyon." for "The capital of France is Paris."',
        ),
        (
            "contradiction",
            'it tells "Paris is the capital of France." from "The capital of France is Paris."',
        ),
    ],
)
def test_a_judge_that_misses_the_obvious_is_a_problem(reply, says, tmp_path):
    with answering(lambda body: completion(reply)) as judge:
        findings = examined(tmp_path, LLM, judge.url)
    (problem,) = findings.problems
    assert problem.part == f"clusterer at {judge.url} m"
    assert says in problem.error
    assert "a more able one" in problem.remedy
    assert findings.notes == []


def problem_of_no_verdict(tmp_path):
    """The one problem of a group whose judge never gives a verdict, and the judge's address."""
    with answering(lambda body: completion("Hmm, I like both.")) as judge:
        findings = examined(tmp_path, LLM, judge.url)
    (problem,) = findings.problems
    return problem, judge.url


def test_a_judge_that_gives_no_verdict_is_a_problem(tmp_path):
    problem, url = problem_of_no_verdict(tmp_path)
    assert problem.part == f"clusterer at {url}"
    assert problem.error.startswith("ClusteringError: ")
    assert problem.remedy


@pytest.mark.wording
def test_the_problem_of_a_judge_without_a_verdict_says_what_it_replied(tmp_path):
    problem, _ = problem_of_no_verdict(tmp_path)
    assert "gave no verdict on any of 3 pairs" in problem.error
    assert problem.error.endswith('the first is "Hmm, I like both"')
    assert problem.remedy.startswith("Take another model as judge")


@pytest.mark.slow
@pytest.mark.parametrize("clusterer", [LLM, EMBEDDING])
def test_a_server_that_is_not_there_ends_the_command_with_1(clusterer, tmp_path):
    def tried(*command):
        with served() as agent:
            path = written(tmp_path, clusterer=clusterer, server=NOBODY, agent=agent.url)
            done = run(*command, "--config", path, code=1)
        return " ".join(done.stdout.split()), done.stderr

    out, _ = tried("doctor")
    assert f"problem: clusterer at {NOBODY}: " in out
    out, err = tried("ask", "Which city?")
    assert out == ""
    assert "ClusteringError" in err
    assert "Traceback" not in err


def test_ask_says_how_many_requests_went_to_judges(tmp_path):
    with (
        served(("It is Paris.", "Surely Paris.", "It is Lyon.")) as agent,
        answering(by_the_city) as judge,
    ):
        path = written(tmp_path, clusterer=LLM, server=judge.url, agent=agent.url)
        done = run("ask", "Which city?", "--config", path, code=3)
        assert f"1 round, 1 request, {len(judge.requests)} to judges, " in done.stdout, done
    assert judge.requests
