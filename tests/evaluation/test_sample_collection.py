import asyncio
import json
import math
from collections import Counter
from types import SimpleNamespace

import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import RateLimitError
from coe_agents.evaluation import Samples
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.sample_collection import Participant, sample
from coe_agents.evaluation.samples.store import Store
from coe_agents.testing import create_response
from coe_agents.types import AgentReply, Usage
from tests.evaluation.invented import score
from tests.waiting import until

QUESTIONS = [Question(str(number), f"What is {number}?", (str(number),)) for number in range(6)]
AGENTS = [Participant("quick", 3, at_once=2), Participant("slow", 2, at_once=3)]


def reply(name, *texts, error=None):
    responses = [
        create_response(name, text, index=i, logprob=-0.5, n_tokens=2)
        for i, text in enumerate(texts)
    ]
    sampling = {"sampling": {"error": error}} if error else {}
    return AgentReply(responses=responses, usage=Usage(input_tokens=0, output_tokens=0), **sampling)


def run(folder, ask, *, questions=QUESTIONS, agents=AGENTS, annotate=None, secrets=(), **options):
    group = SimpleNamespace(participants=agents, ask=ask, annotate=annotate, secrets=secrets)
    units = {
        (question.id, agent.name): agent.n_samples for question in questions for agent in agents
    }
    with Store(folder, {}, units) as store:
        asyncio.run(sample(questions, group, store, **options))
        return [json.loads(line) for line in store.path.read_bytes().splitlines()], store


async def agree(name, question):
    return reply(name, *[f"Answer: {question.id}"] * (3 if name == "quick" else 2))


def test_every_agent_is_asked_every_question_and_each_response_is_a_line(tmp_path):
    lines, _ = run(tmp_path, agree)
    assert [(line["id"], line["agent"], line["index"]) for line in lines] == [
        (question.id, agent.name, index)
        for question in QUESTIONS
        for agent in AGENTS
        for index in range(agent.n_samples)
    ]
    asked = {
        "id": "0",
        "question": "What is 0?",
        "references": ["0"],
        "answerable": True,
        "tools": None,
    }
    said = {
        "agent": "quick",
        "round": 0,
        "index": 0,
        "text": "Answer: 0",
        "answer": "0",
        "calls": None,
        "error": None,
    }
    assert lines[0] == asked | said | {
        "logprob": -0.5,
        "n_tokens": 2,
        "confidence": None,
        "correct": None,
    }


def test_no_agent_waits_for_another_and_none_is_asked_too_much_at_once(tmp_path):
    busy, most, done = Counter(), Counter(), []

    async def ask(name, question):
        busy[name] += 1
        most[name] = max(most[name], busy[name])
        await asyncio.sleep(0)
        if name == "slow":
            await until(lambda: done.count("quick") == len(QUESTIONS))
        busy[name] -= 1
        return await agree(name, question)

    run(tmp_path, ask, on_unit=lambda unit: done.append(unit[1]))
    assert most == {"quick": 2, "slow": 3}
    assert done == ["quick"] * 6 + ["slow"] * 6


def test_a_failure_is_a_row_without_text_or_key_and_is_asked_again(tmp_path):
    asked = []

    async def ask(name, question):
        asked.append((question.id, name))
        if (name, question.id) == ("slow", "3") and len(asked) <= 12:
            raise RateLimitError("too often with sk-0123456789", hint="Wait")
        return await agree(name, question)

    lines, store = run(tmp_path, ask, secrets={"sk-0123456789"})
    (failed,) = [line for line in lines if line["error"] is not None]
    assert [failed[key] for key in ("id", "agent", "index", "text", "answer")] == [
        "3",
        "slow",
        0,
        "",
        None,
    ]
    assert failed["error"].startswith("RateLimitError: ")
    assert "sk-0123456789" not in failed["error"]
    assert store.has_failed(("3", "slow"))
    again, store = run(tmp_path, ask)
    assert asked[12:] == [("3", "slow")]
    assert again == run(tmp_path / "unbroken", agree)[0]
    assert not store.has_failed(("3", "slow"))


@pytest.mark.parametrize(("n_came", "n_kept"), [(0, 0), (1, 1), (4, 2)])
def test_fewer_responses_than_wanted_and_too_many_are_failures(tmp_path, n_came, n_kept):
    why = "AgentTimeoutError: late" if n_came == 1 else None

    async def ask(name, question):
        return reply(name, *["x"] * n_came, error=why)

    lines, _ = run(tmp_path, ask, questions=QUESTIONS[:1], agents=AGENTS[:1])
    said = f"got {n_came} of 3 responses: {why or 'no reason given'}"
    assert [line["error"] for line in lines] == [None] * n_kept + [said]


def test_what_cannot_be_written_ends_the_run_and_keeps_what_came(tmp_path):
    async def ask(name, question):
        answer = await agree(name, question)
        if question.id == "3":
            answer["responses"][0]["logprob"] = math.nan
        return answer

    with pytest.raises(ValueError, match="Out of range float"):
        run(tmp_path, ask, agents=AGENTS[:1])
    asked = []

    async def count(name, question):
        asked.append(question.id)
        return await agree(name, question)

    run(tmp_path, count, agents=AGENTS[:1])
    assert "0" not in asked
    assert "3" in asked


def test_a_line_says_how_a_response_ended_and_one_without_it_is_whole(tmp_path):
    ends = ["whole", "cut", "filtered", "unknown"]

    async def ask(name, question):
        rows = [create_response(name, "0", index=i, end=end) for i, end in enumerate(ends)]
        return AgentReply(responses=rows, usage=Usage(input_tokens=0, output_tokens=0))

    agents = [Participant(name, 4) for name in "ab"]
    lines, store = run(tmp_path, ask, questions=QUESTIONS[:1], agents=agents)
    assert [line.get("end") for line in lines[:4]] == [None, "cut", "filtered", "unknown"]
    with Samples([store.path]) as samples:
        (question,) = samples
        assert [row["end"] for row in question.responses] == ends * 2
        values = score(samples, clusterer=NormalizedMatch()).values
    quarter = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)  # the filtered one says nothing
    assert values["coe"].tolist() == pytest.approx([quarter])
