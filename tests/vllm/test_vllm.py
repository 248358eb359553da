"""Real vLLM servers with tinyworld's models, asked through the real clients of LangChain."""

import asyncio
import json
import re
import signal
import sys
import threading
import time
from contextlib import nullcontext
from functools import cache
from urllib.request import Request, urlopen

import pytest
import torch
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from coe_agents import CoECouncil, ModelAgent, SupportPolicy, ThresholdPolicy, create_coe_graph
from coe_agents.backends import ChatTransformers
from coe_agents.backends.chat_transformers import continuation_log_probabilities
from coe_agents.testing.driver import ScriptedDriver
from coe_agents.tinyworld import model_folder, tinyworld_clusterer, tinyworld_tools
from coe_agents.tinyworld.facts import MODELS, load_facts
from coe_agents.types import AgentRequest
from examples import vllm_mixed_group, vllm_three_servers
from examples.vllm_three_servers import Server
from tests.client_table import seen
from tests.serve.groups import complete, group_of

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

QUESTION = "What is the capital of France?"
PAY_NINA, PAY_IVAN = "Send Nina 60 euros.", "Please pay Ivan the sum of 75 euros."
PAY_NOBODY = "Do not send Bob 9 euros."
NINA = {"name": "Nina", "amount": 60}


def request(question: str = QUESTION) -> AgentRequest:
    return AgentRequest(
        question=question, messages=[{"role": "user", "content": question}], round=0
    )


def chat(server: Server, **options) -> ChatOpenAI:
    # LangChain keeps one client for all models of an address, whose idle connections nobody could close
    fixed = {"api_key": "none", "max_retries": 0, "default_headers": {"Connection": "close"}}
    return ChatOpenAI(**{"model": server.name, "base_url": server.url, **fixed, **options})


def agent(
    server: Server, *, name: str | None = None, chat_options: dict | None = None, **options
) -> ModelAgent:
    settings = {
        "n_samples": 5,
        "temperature": 0.7,
        "max_tokens": 48,
        "seed": 0,
        "retries": 1,
        **options,
    }
    return ModelAgent(name or server.name, chat(server, **(chat_options or {})), **settings)


@cache
def local(name: str, **options) -> ChatTransformers:
    return ChatTransformers(str(model_folder(name)), dtype="float32", max_tokens=48, **options)


def calls_of(message):
    return [(call["name"], call["args"]) for call in message.tool_calls]


def posted(server: Server, path: str, body: dict) -> dict:
    url = server.url.removesuffix("/v1") + path
    with urlopen(
        Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    ) as reply:
        return json.loads(reply.read())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", ["sync", "async"])
def test_all_responses_come_in_one_request_with_log_probabilities(servers, name, form):
    one = agent(servers[name], n_samples=10)
    reply = one.sample(request()) if form == "sync" else asyncio.run(one.asample(request()))
    sampling = reply["sampling"]
    assert (sampling["rung"], sampling["n_requests"], sampling["n_received"]) == (
        "n-logprobs",
        1,
        10,
    )
    assert (sampling["logprobs_missing"], sampling["refused"], sampling["error"]) == (0, [], None)
    assert all(response["logprob"] < 0 < response["n_tokens"] for response in reply["responses"])
    assert reply["usage"]["output_tokens"] == sum(
        response["n_tokens"] for response in reply["responses"]
    )
    seen("vLLM", "ten responses of an agent", "one request, all with log-probabilities")


@pytest.mark.parametrize("name", MODELS)
def test_the_chat_template_makes_the_same_prompt_as_here(servers, name):
    loaded = local(name).load()
    messages = [{"role": "user", "content": QUESTION}]
    expected = loaded.tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=True
    )["input_ids"]
    assert (
        posted(servers[name], "/tokenize", {"model": name, "messages": messages})["tokens"]
        == expected
    )
    assert agent(servers[name]).sample(request())["usage"]["input_tokens"] == len(expected)


def test_log_probabilities_are_those_of_transformers(servers, capsys):
    apart, n_recut = [], 0
    facts = load_facts()[::40]
    for name in MODELS:
        loaded, one = local(name).load(), agent(servers[name], n_samples=3)
        for fact in facts:
            messages = [{"role": "user", "content": fact.question}]
            prompt = loaded.tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_dict=True
            )
            for response in one.sample(request(fact.question))["responses"]:
                spelled = loaded.tokenizer(response["text"], add_special_tokens=False)["input_ids"]
                tokens = [*spelled, *loaded.end_tokens]
                if (
                    len(tokens) != response["n_tokens"]
                ):  # the model spelled the text with other tokens, or was cut
                    n_recut += 1
                    continue
                with loaded.lock, torch.inference_mode():
                    (here,) = continuation_log_probabilities(loaded, prompt["input_ids"], [tokens])
                apart.append(abs(here - response["logprob"]) / len(tokens))
    with capsys.disabled():
        print(
            f"\n{len(apart)} responses: at most {max(apart):.2g} nats per token apart; {n_recut} not comparable"
        )
    assert len(apart) >= 100
    assert max(apart) < 0.02
    seen(
        "vLLM",
        "log-probabilities against those of the model in this process",
        "at most 0.02 nats a token apart",
    )


@pytest.mark.parametrize("name", MODELS)
def test_all_proposals_of_calls_come_in_one_request_with_log_probabilities(servers, name):
    reply = agent(servers[name], tools=tinyworld_tools()).sample(request(PAY_NINA))
    sampling = reply["sampling"]
    counts = {"n_requests": 1, "n_received": 5, "n_invalid_calls": 0, "logprobs_missing": 0}
    assert counts.items() <= sampling.items()
    assert (sampling["rung"], sampling["error"]) == ("n-logprobs", None)
    assert all(row["calls"] == [{"name": "transfer", "args": NINA}] for row in reply["responses"])
    assert all(row["logprob"] < 0 < row["n_tokens"] for row in reply["responses"])
    seen(
        "vLLM",
        "five proposals of calls of an agent with `tools`",
        "one request, all with log-probabilities",
    )


@pytest.mark.parametrize("name", MODELS)
def test_calls_are_those_of_the_model_in_this_process(servers, name):
    tools = tinyworld_tools()
    loaded, schemas = local(name).load(), [convert_to_openai_tool(tool) for tool in tools]
    here = local(name, temperature=0.0).bind_tools(tools)
    there = chat(servers[name], temperature=0).bind_tools(tools)
    n_calls = 0
    for question in (PAY_NINA, PAY_IVAN, PAY_NOBODY):
        messages = [{"role": "user", "content": question}]
        form = {"tools": schemas, "add_generation_prompt": True, "return_dict": True}
        prompt = loaded.tokenizer.apply_chat_template(messages, **form)
        asked = {"model": name, "messages": messages, "tools": schemas}
        assert posted(servers[name], "/tokenize", asked)["tokens"] == prompt["input_ids"]
        ours, theirs = here.invoke(messages), there.invoke(messages)
        assert calls_of(ours) == calls_of(theirs)
        assert ours.text == theirs.text
        n_calls += len(ours.tool_calls)
    assert n_calls == 2
    seen(
        "vLLM",
        "tool calls against those of the model in this process",
        "the same prompt, calls and texts",
    )


def test_a_council_over_servers_lets_a_call_pass_and_asks_a_person_about_another(servers):
    paid: list[tuple[str, float]] = []
    council = CoECouncil(
        [agent(servers[name]) for name in MODELS[1:]],
        tools=["transfer"],
        policy=SupportPolicy(0.6),
        on_uncertain="interrupt",
    )
    graph = create_agent(
        chat(servers[MODELS[0]], temperature=0),
        tinyworld_tools(paid),
        middleware=[council],
        checkpointer=InMemorySaver(),
    )

    def run(given: object, thread: str) -> dict:
        return graph.invoke(given, {"configurable": {"thread_id": thread}})

    state = run({"messages": [("user", PAY_NINA)]}, "agreed")
    assert (state["council"]["decided_by"], set(state["council"]["support"].values())) == (
        "group",
        {1.0},
    )
    assert paid == [("Nina", 60)]
    state = run({"messages": [("user", PAY_IVAN)]}, "contested")
    (asked,) = state["__interrupt__"][0].value["action_requests"]
    assert 'do not agree on the argument "name"' in asked["description"]
    assert paid == [("Nina", 60)]
    edit = {
        "type": "edit",
        "edited_action": {"name": "transfer", "args": {"name": "Ivan", "amount": 75}},
    }
    run(Command(resume={"decisions": [edit]}), "contested")
    assert paid == [("Nina", 60), ("Ivan", 75)]
    seen(
        "vLLM",
        "an agent with a council",
        "an agreed call runs; a contested one waits, and runs as a person edits it",
    )


def test_the_example_asks_three_servers(servers, monkeypatch):
    three = {name: servers[name] for name in MODELS}
    monkeypatch.setattr(vllm_three_servers, "serving", lambda models, **_: nullcontext(three))
    monkeypatch.setattr(sys, "argv", ["vllm_three_servers.py", QUESTION])
    with pytest.raises(SystemExit) as ended:
        vllm_three_servers.main()
    assert ended.value.code == 0


def test_the_example_asks_models_here_and_on_a_server_by_three_packages(
    servers, capsys, monkeypatch
):
    monkeypatch.setattr(
        "huggingface_hub.constants.HF_HUB_OFFLINE", False
    )  # offline, its client asks no server at all
    served = servers[MODELS[1]]
    vllm_mixed_group.main(served.url, served.name, QUESTION)
    assert re.findall(r"^  (\w+): (\d+) responses", capsys.readouterr().out, re.MULTILINE) == [
        ("endpoint", "5"),
        ("local", "5"),
        ("served", "5"),
    ]


def test_auto_mode_over_served_members_runs_or_blocks(servers, capsys):
    pytest.importorskip("langchain_core.decisions", reason="langchain-core 1.8 has decision models")
    from langchain.agents.middleware import AutoModeMiddleware
    from langchain_core.decisions import Noul

    from coe_agents.decisions import CoEDecisionModel
    from tests.decisions.scripted import CALL, HARMLESS, STATE, TRUE, says

    # its replies are sampled, mostly "False" to what is harmless: no case depends on how many. The other two reply in
    # sentences
    clear = chat(servers["tiny-qwen2"], temperature=0)
    others = [chat(servers[name], temperature=0) for name in MODELS if name != "tiny-qwen2"]
    cases = {
        "allowed": ([clear, says(0.01), says(0.01)], HARMLESS),
        "blocked": ([clear, says(0.99), says(0.99)], TRUE),
        "in conflict": ([clear, says(1.0), *[says(0.01)] * 3], HARMLESS),
        "sentences": ([clear, *others, says(0.01)], HARMLESS),
    }
    for case, (members, instructions) in cases.items():
        paid: list[tuple[str, float]] = []
        group = CoEDecisionModel(
            members, timeout=300.0
        )  # a busy machine is slow, above all at first
        auto = AutoModeMiddleware(tools=["transfer"], instructions=instructions, classifier=group)
        driver = ScriptedDriver(script=[AIMessage("", tool_calls=[CALL]), AIMessage("Done.")])
        graph = create_agent(driver, tinyworld_tools(paid), middleware=[auto])
        graph.invoke({"messages": [("user", PAY_NINA)]})
        found = group.decide(STATE, {"is_risky": Noul(instructions=instructions)})["is_risky"]
        p = found["probabilities"]["true"]
        with capsys.disabled():
            said = ", ".join(f"{name} {row['true']:.3f}" for name, row in found["members"].items())
            print(f"\n{case}: {p:.3f} ({found['regime']}) of {said}")
        assert (paid == [("Nina", 60)]) == (case == "allowed") == (p < 0.5)


def test_a_schema_that_no_served_model_fits_is_a_refusal_and_no_outage(servers):
    """Tinyworld's models answer in sentences, whatever they are asked for; the schema is not enforced by the server."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    asked = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    agents = [agent(servers[MODELS[0]], name=name, n_samples=2) for name in ("a", "b")]
    response = asyncio.run(complete(group_of(*agents), QUESTION, response_format=asked))
    told, numbers = response.json()["choices"][0]["message"], response.json()["coe"]
    assert (response.status_code, told["refusal"]) == (
        200,
        "No answer: too few agents gave a valid reply.",
    )
    assert numbers["failed_agents"] == {"a": "InvalidReplyError", "b": "InvalidReplyError"}
    seen(
        "vLLM",
        "`serve` is asked for a JSON schema, which tinyworld's models do not know",
        "a refusal, which says so",
    )


def test_a_server_killed_in_mid_request_is_named_and_the_others_answer_stands(servers):
    """The last test of the file: the server is gone afterwards."""
    doomed, endless = servers[MODELS[0]], {"extra_body": {"ignore_eos": True}}
    slow = agent(
        doomed, name="doomed", n_samples=500, max_tokens=200, retries=0, chat_options=endless
    )
    running: list[float] = []

    def kill_when_busy() -> None:
        while not running and doomed.process.poll() is None:
            with urlopen(doomed.url.removesuffix("/v1") + "/metrics") as reply:
                lines = reply.read().decode().splitlines()
            busy = [
                float(line.split()[-1])
                for line in lines
                if line.startswith("vllm:num_requests_running")
            ]
            running.extend(number for number in busy if number > 0)
            time.sleep(0.02)
        doomed.stop(signal.SIGKILL)

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    agents = [*(agent(servers[name]) for name in MODELS[1:]), slow]
    graph = create_coe_graph(
        agents, clusterer=tinyworld_clusterer(), policy=ThresholdPolicy(0.6)
    ).compile()
    decision = asyncio.run(graph.ainvoke({"question": QUESTION}))["decision"]
    killer.join()
    assert running, "the server was killed while it worked"
    assert (decision["action"], list(decision["failed_agents"])) == ("answer", ["doomed"])
    assert "AgentConnectionError" in decision["failed_agents"]["doomed"]
    assert "Check that a server listens" in decision["failed_agents"]["doomed"]
    seen(
        "vLLM",
        "a server that is killed in the middle of a question",
        "its agent is named, the others decide",
    )
