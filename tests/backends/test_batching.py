import asyncio
import logging

import pytest
import torch
from langchain_core.messages import HumanMessage

from coe_agents.backends import ChatTransformers, batching
from coe_agents.backends.batching import Prepared
from coe_agents.backends.generation import DrawSettings
from coe_agents.tinyworld.facts import load_facts
from tests.backends.hermes import FOLDER
from tests.waiting import until

QUESTIONS = sorted({fact.question for fact in load_facts()}, key=lambda text: (len(text), text))[
    ::150
]
"""Of all lengths."""


@pytest.fixture
def chat():
    return ChatTransformers(FOLDER, max_tokens=24, dtype="float32")


@pytest.fixture
def batches(monkeypatch):
    """The numbers of prompts and rows of each batch that is drawn."""
    drawn, draw_rows = [], batching.draw_rows

    def noted(loaded, prompts, rows, settings):
        drawn.append((len(prompts), len(rows)))
        return draw_rows(loaded, prompts, rows, settings)

    monkeypatch.setattr(batching, "draw_rows", noted)
    return drawn


@pytest.fixture
def sizes(chat, monkeypatch):
    """The numbers of rows that `generate` is called with; a test may set a limit, above which memory runs out."""
    model, noted = chat.load().model, Sizes()
    generate = model.generate

    def limited(*, input_ids, **options):
        noted.append(len(input_ids))
        if len(input_ids) > noted.limit:
            raise torch.OutOfMemoryError("out of memory")
        return generate(input_ids=input_ids, **options)

    monkeypatch.setattr(model, "generate", limited)
    return noted


class Sizes(list):
    limit = 10_000


def request(chat, question, seed, **options):
    return chat.agenerate([[HumanMessage(question)]], seed=seed, **options)


async def until_waiting(chat, n_requests):
    await until(lambda: batching.batches_of(chat.load())._incoming.qsize() >= n_requests)


def requests(chat, questions, **options):
    tasks = []
    for place, question in enumerate(questions):
        tasks.append(asyncio.create_task(request(chat, question, 1000 * place, **options)))
    return tasks


async def together(chat, questions=QUESTIONS, **options):
    """Asks while the model is busy, until all requests wait, however slow the machine."""
    with chat.load().lock:
        tasks = requests(chat, questions, **options)
        await until_waiting(chat, len(questions))
    return await asyncio.gather(*tasks, return_exceptions=True)


async def in_turn(chat, questions=QUESTIONS, **options):
    results = []
    for place, question in enumerate(questions):
        results.append(await request(chat, question, 1000 * place, **options))
    return results


def texts(results):
    """The texts of each result."""
    texts_of = []
    for result in results:
        (generations,) = result.generations
        texts_of.append([generation.text for generation in generations])
    return texts_of


def logprobs(results):
    values = []
    for result in results:
        for generation in result.generations[0]:
            tokens = generation.generation_info["logprobs"]["content"]
            values += [token["logprob"] for token in tokens]
    return values


async def test_requests_that_come_together_share_a_batch_and_each_gets_what_it_gets_alone(
    chat, batches
):
    alone = await in_turn(chat, n=5)
    assert batches == [(1, 5)] * len(QUESTIONS)
    del batches[:]
    joined = await together(chat, n=5)
    assert batches == [(len(QUESTIONS), 5 * len(QUESTIONS))]
    assert texts(joined) == texts(alone)
    assert logprobs(joined) == pytest.approx(logprobs(alone), abs=1e-4)


async def test_requests_with_other_settings_are_not_mixed(chat, batches):
    settings = [
        {"temperature": 0},
        {"temperature": 2.0},
        {"stop": ["is"]},
        {"max_tokens": 2},
        {"top_p": 0.5},
    ]
    joined = await asyncio.gather(*(request(chat, QUESTIONS[0], 7, n=4, **one) for one in settings))
    assert len(batches) == len(settings)
    alone = [await request(chat, QUESTIONS[0], 7, n=4, **one) for one in settings]
    assert texts(joined) == texts(alone)


async def test_a_batch_that_is_too_large_for_the_memory_is_halved(chat, sizes, caplog):
    enough = texts(await together(chat, n=5))
    sizes.limit = 3  # not even one request's
    with caplog.at_level(logging.WARNING, logger="coe_agents.backends.generation"):
        assert texts(await together(chat, n=5)) == enough
    n_rows = 5 * len(QUESTIONS)
    told = f"{chat.load().device} has too little memory for {n_rows} responses at once; {(n_rows + 1) // 2} are tried"
    assert told in caplog.text
    sizes.limit = 0
    with pytest.raises(torch.OutOfMemoryError):
        await request(chat, QUESTIONS[0], 1, n=4)


async def test_a_fault_in_a_batch_reaches_only_its_request(chat, monkeypatch):
    loaded = chat.load()
    culprit = chat._prompt(loaded, [HumanMessage(QUESTIONS[1])])
    generate = loaded.model.generate

    def faulty(*, input_ids, **options):
        if any(row[-len(culprit) :] == culprit for row in input_ids.tolist()):
            raise RuntimeError("a fault")
        return generate(input_ids=input_ids, **options)

    expected = texts(await in_turn(chat, QUESTIONS[:4], n=1))
    monkeypatch.setattr(loaded.model, "generate", faulty)
    results = await together(chat, QUESTIONS[:4], n=1)
    assert repr(results[1]) == "RuntimeError('a fault')"
    others = [place for place in range(4) if place != 1]
    assert texts([results[place] for place in others]) == [expected[place] for place in others]


async def test_who_gives_up_disturbs_nobody_and_is_not_waited_for(chat, batches):
    expected = texts(await in_turn(chat, QUESTIONS[:4], n=5))
    del batches[:]
    with chat.load().lock:  # the model is busy
        tasks = requests(chat, QUESTIONS[:4], n=5)
        await until_waiting(chat, 4)
        tasks[2].cancel()
        await asyncio.wait([tasks[2]], timeout=60)
        assert tasks[2].cancelled()
    del tasks[2], expected[2]
    assert texts(await asyncio.gather(*tasks)) == expected
    assert sum(n_prompts for n_prompts, _ in batches) == 3


async def test_no_batch_is_larger_than_it_may_be(batches, sizes, chat):
    small = ChatTransformers(FOLDER, max_tokens=24, max_batch=8)
    results = await together(small, n=3)
    assert texts(results) == texts(await in_turn(chat, n=3))
    assert max(n_rows for _, n_rows in batches) <= 8
    many = await request(small, QUESTIONS[0], 1, n=20)
    assert len(many.generations[0]) == 20
    assert max(sizes) <= 8


def test_prompts_of_very_unlike_lengths_do_not_join():
    settings = DrawSettings(temperature=1.0, top_p=1.0, n_top=0, n_new=24, stop=(), max_batch=256)

    def prepared(length, *, n=1):
        return Prepared([5] * length, range(n), settings)

    assert prepared(70).may_join([prepared(20)])
    assert not prepared(400).may_join([prepared(20)])
    assert not prepared(20).may_join([prepared(400)])
    assert prepared(20, n=156).may_join([prepared(20, n=100)])
    assert not prepared(20, n=157).may_join([prepared(20, n=100)])
