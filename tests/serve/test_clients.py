import asyncio

import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from coe_agents import ModelAgent
from coe_agents.clustering.refusals import answer_kind
from coe_agents.testing import ScriptedAgent
from tests.client_table import seen
from tests.graph.groups import graph
from tests.serve.groups import AGREEING, DISAGREEING, KEY, SlowAgent, create_group, group_of
from tests.serve.live import serving

SDK = "`openai` SDK"
QUESTION = [{"role": "user", "content": "What is the capital?"}]


@pytest.fixture(scope="module")
def agreeing():
    with serving(create_group(*AGREEING), key=KEY) as address:
        yield f"{address}/v1"


def sdk(address, **options):
    return openai.OpenAI(base_url=address, **{"api_key": KEY, "max_retries": 0, **options})


def test_options_of_the_gate_go_in_the_extra_body_and_the_sdk_raises_its_own_errors(agreeing):
    with sdk(agreeing) as client:
        ask = client.chat.completions.create
        completion = ask(model="g", messages=QUESTION, extra_body={"coe": {"max_coe": 0.1}})
        assert completion.coe["action"] == "answer"
        with pytest.raises(openai.BadRequestError, match="the operator's") as refused:
            ask(model="g", messages=QUESTION, extra_body={"coe": {"max_coe": 0.9}})
        assert refused.value.param == "coe.max_coe"
        seen(SDK, "a stricter and a looser `max_coe`", "used; `BadRequestError` that names it")
        with pytest.raises(openai.BadRequestError) as refused:
            ask(model="g", messages=QUESTION, n=3)
        assert refused.value.param == "n"
        with pytest.raises(openai.NotFoundError) as missing:
            ask(model="other", messages=QUESTION)
        assert missing.value.code == "model_not_found"
    with sdk(agreeing, api_key="another") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    seen(
        SDK,
        "`n=3`, another model, another key",
        "`BadRequestError`, `NotFoundError`, `AuthenticationError`",
    )


class Place(BaseModel):
    city: str


@pytest.mark.parametrize("refusals", ["content", "field"])
def test_parse_has_the_sentence_of_a_refusal_only_in_its_own_field(refusals):
    places = ('{"city": "Paris"}', '{"city": "Lyon"}', '{"city": "Nice"}')
    asked = {"model": "g", "messages": QUESTION, "response_format": Place}
    with (
        serving(create_group(*places), refusals=refusals) as address,
        sdk(f"{address}/v1") as client,
    ):
        if refusals == "content":
            with pytest.raises(openai.ContentFilterFinishReasonError) as refused:
                client.chat.completions.parse(**asked)
            assert "No answer" not in str(refused.value)
            return
        message = client.chat.completions.parse(**asked).choices[0].message
    assert message.parsed is None
    assert message.content is None
    assert message.refusal


async def test_the_sdk_waits_as_long_as_it_is_told():
    group = group_of(SlowAgent("a", ["x"], seconds=0.1))
    with serving(group, max_requests=1) as address:
        async with openai.AsyncOpenAI(
            base_url=f"{address}/v1", api_key="none", max_retries=10
        ) as client:
            asked = [client.chat.completions.create(model="g", messages=QUESTION) for _ in range(3)]
            completions = await asyncio.gather(*asked)
    assert [completion.choices[0].message.content for completion in completions] == ["x"] * 3
    seen(SDK, "three requests where one is allowed at a time", "429, waits as told, then answered")


@pytest.mark.parametrize(("said", "action"), [(AGREEING, "answer"), (DISAGREEING, "abstain")])
async def test_a_group_is_an_agent_of_another_group(said, action):
    with serving(create_group(*said)) as address:
        model = ChatOpenAI(model="g", base_url=f"{address}/v1", api_key="none", logprobs=True)
        inner = ModelAgent("inner", model, n_samples=3, on_greedy="count_once")
        others = [ScriptedAgent(name, ["Paris"]) for name in "bc"]
        asked = {"question": "What is the capital of France?"}
        decision = (await graph(inner, *others).compile().ainvoke(asked))["decision"]
    assert decision["action"] == action
    (sampling,) = decision["agents"]["inner"]["sampling"]
    assert sampling["refused"] == ["logprobs", "n"]
    ((said, share),) = decision["agents"]["inner"]["distribution"].items()
    assert share == 1.0
    if action == "answer":
        assert (said, sampling["counted"]) == ("Paris", "once")  # its equal responses count once
    else:
        assert answer_kind(said) != "answer"  # a refusal never is
    shown = {"answer": "counts once", "abstain": "never counts as an answer"}
    seen("`ChatOpenAI`", f"an agent of another group: {action}", shown[action])
