"""Real clients of OpenAI's API: its SDK, LangChain's ChatOpenAI as an agent of another group, and curl."""

import asyncio
import json
import shutil
import subprocess

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent, SupportPolicy, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.clustering.refusals import answer_kind
from coe_agents.testing import ScriptedAgent
from tests.client_table import seen
from tests.doubles import ProposingModel
from tests.serve.groups import AGREEING, DISAGREEING, SlowAgent, create_group, group_of
from tests.serve.live import serving

SDK = "`openai` SDK"
KEY = "planted-key-0123456789"
QUESTION = [{"role": "user", "content": "What is the capital?"}]


@pytest.fixture(scope="module")
def agreeing():
    with serving(create_group(*AGREEING), key=KEY) as address:
        yield f"{address}/v1"


@pytest.fixture(scope="module")
def disagreeing():
    with serving(create_group(*DISAGREEING), key=KEY) as address:
        yield f"{address}/v1"


def sdk(address, **options):
    return openai.OpenAI(base_url=address, **{"api_key": KEY, "max_retries": 0, **options})


def test_the_sdk_reads_an_answer(agreeing):
    with sdk(agreeing) as client:
        assert [model.id for model in client.models.list()] == ["g"]
        completion = client.chat.completions.create(model="g", messages=QUESTION)
    (choice,) = completion.choices
    assert (choice.message.content, choice.message.refusal, choice.finish_reason) == ("Paris", None, "stop")
    assert completion.usage.total_tokens == 12
    assert completion.coe["regime"] == "consensus"
    seen(SDK, "a question that is answered", "`content`; the numbers in `coe`")


def test_the_sdk_reads_a_stream(agreeing, disagreeing):
    for address, field, text in ((agreeing, "content", "Paris"), (disagreeing, "refusal", "No answer: ")):
        with sdk(address) as client:
            stream = client.chat.completions.create(
                model="g", messages=QUESTION, stream=True, stream_options={"include_usage": True}
            )
            chunks = list(stream)
        said = "".join(getattr(choice.delta, field) or "" for chunk in chunks for choice in chunk.choices)
        assert said.startswith(text)
        assert chunks[-1].usage.total_tokens == 12
        assert chunks[-2].choices[0].finish_reason == ("stop" if field == "content" else "content_filter")
        assert chunks[-2].coe["action"] == ("answer" if field == "content" else "abstain")
    seen(
        SDK,
        "a question that is not answered",
        'the sentence in `refusal` and `content`; `finish_reason` "content_filter"',
    )
    seen(SDK, "streams of both", "the same; nothing before the gate")


def test_options_of_the_gate_go_in_the_extra_body(agreeing):
    with sdk(agreeing) as client:
        ask = client.chat.completions.create
        completion = ask(model="g", messages=QUESTION, extra_body={"coe": {"max_coe": 0.1}})
        assert completion.coe["action"] == "answer"
        with pytest.raises(openai.BadRequestError, match="the operator's") as refused:
            ask(model="g", messages=QUESTION, extra_body={"coe": {"max_coe": 0.9}})
        assert refused.value.param == "coe.max_coe"
    seen(SDK, "a stricter and a looser `max_coe`", "used; `BadRequestError` that names it")


def test_the_sdk_raises_its_own_errors(agreeing):
    with sdk(agreeing) as client:
        ask = client.chat.completions.create
        with pytest.raises(openai.BadRequestError) as refused:
            ask(model="g", messages=QUESTION, n=3)
        assert refused.value.param == "n"
        with pytest.raises(openai.NotFoundError) as missing:
            ask(model="other", messages=QUESTION)
        assert missing.value.code == "model_not_found"
    with sdk(agreeing, api_key="another") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    seen(SDK, "`n=3`, another model, another key", "`BadRequestError`, `NotFoundError`, `AuthenticationError`")


PAY = {
    "type": "function",
    "function": {
        "name": "pay",
        "parameters": {"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "number"}}},
    },
}


class Acting(ProposingModel):
    """Proposes to pay an amount, until it sees the result."""

    amount: float = 5

    def _generate(self, messages, stop=None, run_manager=None, **options):
        calls = [{"name": "pay", "args": {"to": "Ann", "amount": self.amount}, "id": "1"}]
        is_done = isinstance(messages[-1], ToolMessage)
        self.script = [AIMessage(f"Done: {messages[-1].text}.") if is_done else AIMessage("", tool_calls=calls)]
        return super()._generate(messages, stop, run_manager, **options)


def paying(*amounts):
    models = [Acting(script=[], amount=amount) for amount in amounts]
    agents = [ModelAgent(name, model, n_samples=1) for name, model in zip("abc", models, strict=True)]
    return serving(group_of(*agents, policy=SupportPolicy(0.6)), key=KEY)


def ask_whole(client, messages):
    completion = client.chat.completions.create(model="g", messages=messages, tools=[PAY])
    assert completion.choices[0].finish_reason == ("tool_calls" if completion.choices[0].message.tool_calls else "stop")
    return completion.choices[0].message


def ask_in_a_stream(client, messages):
    with client.chat.completions.stream(model="g", messages=messages, tools=[PAY]) as stream:
        return stream.get_final_completion().choices[0].message


@pytest.mark.parametrize("ask", [ask_whole, ask_in_a_stream])
def test_the_sdk_runs_a_loop_of_tools(ask):
    messages, paid = [{"role": "user", "content": "Pay Ann 5"}], []
    with paying(5, 5.0, 900) as address, sdk(f"{address}/v1") as client:
        while calls := (message := ask(client, messages)).tool_calls:
            messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
            for call in calls:
                paid.append(json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": "paid"})
    assert paid == [{"to": "Ann", "amount": 5}]
    assert message.content == "Done: paid."
    seen(SDK, "a loop of tools, whole and in streams", "`tool_calls` that the group agrees on; then `content`")


def test_the_sdk_reads_a_refusal_of_tool_calls():
    with paying(5, 900, 70) as address, sdk(f"{address}/v1") as client:
        completion = client.chat.completions.create(model="g", messages=QUESTION, tools=[PAY])
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="g", messages=QUESTION, tool_choice="required")
    message = completion.choices[0].message
    assert (message.content, message.tool_calls) == (message.refusal, None)
    assert 'the proposals differ in "amount" of "pay"' in message.refusal
    assert "900" not in completion.model_dump_json(exclude={"created", "id"})
    assert refused.value.param == "tool_choice"
    result = "`refusal`, which names the argument and no value; `BadRequestError`"
    seen(SDK, '`tools`: an argument is contested; `tool_choice="required"` without tools', result)


async def test_langchain_runs_the_calls_of_a_group():
    with paying(5, 5.0, 900) as address:
        model = ChatOpenAI(model="g", base_url=f"{address}/v1", api_key=KEY).bind_tools([PAY])
        asked = HumanMessage("Pay Ann 5")
        proposal = await model.ainvoke([asked])
        (call,) = proposal.tool_calls
        said = await model.ainvoke([asked, proposal, ToolMessage("paid", tool_call_id=call["id"])])
    assert (call["args"], said.text) == ({"to": "Ann", "amount": 5}, "Done: paid.")
    seen("`ChatOpenAI`", "`bind_tools`: a call, and its result", "`tool_calls` that the group agrees on; then the text")


async def test_the_sdk_waits_as_long_as_it_is_told():
    group = group_of(SlowAgent("a", ["x"], seconds=0.1))
    with serving(group, max_requests=1) as address:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=10) as client:
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
        graph = create_coe_graph(
            [inner, *others], clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5), retries=0
        ).compile()
        decision = (await graph.ainvoke({"question": "What is the capital of France?"}))["decision"]
    assert decision["action"] == action
    (sampling,) = decision["agents"]["inner"]["sampling"]
    assert sampling["refused"] == ["logprobs", "n"]
    ((said, share),) = decision["agents"]["inner"]["distribution"].items()
    assert share == 1.0
    if action == "answer":
        assert (said, sampling["counted"]) == ("Paris", "once")  # its equal responses count once
    else:
        assert answer_kind(said) != "answer"  # a refusal never is
    seen(
        "`ChatOpenAI`",
        f"an agent of another group: {action}",
        {"answer": "counts once", "abstain": "never counts as an answer"}[action],
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(agreeing):
    body = json.dumps({"model": "g", "messages": QUESTION, "stream": True})
    command = ["curl", "--silent", "--show-error", "--no-buffer", "--max-time", "120"]
    own = ["--header", f"Authorization: Bearer {KEY}", "--header", "Content-Type: application/json"]
    done = subprocess.run(
        [*command, *own, "--data", body, f"{agreeing}/chat/completions"], capture_output=True, text=True, check=True
    )
    assert '"content": "Paris"' in done.stdout
    assert done.stdout.endswith("data: [DONE]\n\n")
    shown = ["--write-out", "%{http_code}", "--user", f"anyone:{KEY}", f"{agreeing.removesuffix('/v1')}/group"]
    done = subprocess.run([*command, *shown], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("200")
    seen("curl", "a stream; a key as a password", "the answer; 200")
