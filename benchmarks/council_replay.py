"""Replays recorded proposals of tool calls through agents with a council: no call may be lost, doubled or reordered.

    python benchmarks/council_replay.py FOLDER [--driver Qwen3-8B] [--limit N] [--write PAGE]

FOLDER holds `act_bfcl_open.dev.jsonl.gz`, one prompt a line: "question" (OpenAI's messages), "tools" (schemas), and
"responses", by model the "calls" that it proposed, each with "name" and "arguments". For each prompt an agent of
`create_agent` is driven by one model's proposal, the others are the members, and the tools only note that they ran.
Each prompt is run under "verify" and "choose", synchronously and asynchronously in turn. What ran must be what went
on: under "verify" the driver's calls or none, under "choose" the calls of a participant or none; each once, and with
its replies in the order of the calls. "verify" is run for a majority and for two votes, and again with `adaptive=True`:
what goes on must be the same. Exits with 1 if a prompt differs.
"""

import argparse
import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import StructuredTool
from result_page import result_page

from coe_agents import CoECouncil, ModelAgent, SupportPolicy
from coe_agents.testing.driver import ScriptedDriver

Calls = list[dict[str, Any]]
DONE = "Done."
VERIFYING: dict[str, dict[str, Any]] = {
    "a majority of the members": {},
    "2 votes": {"min_votes": 2},
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--driver", default="Qwen3-8B", help="the model whose proposals drive the agent"
    )
    parser.add_argument("--limit", type=int, help="replays so many prompts only")
    with result_page():
        return replay(parser.parse_args())


def replay(args: argparse.Namespace) -> int:
    counts, faults = Counter[str](), list[str]()
    asked = {name: Counter[str]() for name in VERIFYING}
    for place, prompt in enumerate(read(args.folder / "act_bfcl_open.dev.jsonl.gz")[: args.limit]):
        how: dict[str, Any] = {"prompt": prompt, "driver": args.driver, "is_async": bool(place % 2)}
        # after a withheld message the run ends, since the group might choose a call then, too
        outcome, fault, _ = check(**how, mode="choose", policy=SupportPolicy(0.4), max_blocked=1)
        counts[f"choose: {outcome}"] += 1
        said = [("choose", fault)]
        for name, options in VERIFYING.items():
            outcome, fault, all_asked = check(**how, **options)
            counts[f"verify, {name}: {outcome}"] += 1
            adaptive, other_fault, some_asked = check(**how, **options, adaptive=True)
            if adaptive != outcome or some_asked["calls"] != all_asked["calls"]:
                other_fault = "another ruling than that of asking all"
            said += [(f"verify, {name}", fault), (f"adaptive, {name}", other_fault)]
            asked[name] += Counter(all=all_asked["n_asked"], adaptive=some_asked["n_asked"])
        faults += [f"{prompt['id']} ({what}): {fault}" for what, fault in said if fault]
        counts["prompts"] += 1
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")
    for name, requests in asked.items():
        saved = 1 - requests["adaptive"] / requests["all"]
        n_all, n_some = f"{requests['all']:,}", f"{requests['adaptive']:,}"
        print(
            f"adaptive, {name}: {n_some} requests to members instead of {n_all}, {saved:.0%} saved"
        )
    print(
        f"runs whose calls were lost, doubled, reordered or changed, or ruled otherwise by adaptive: {len(faults)}"
    )
    for fault in faults[:20]:
        print(fault)
    return int(bool(faults))


def read(path: Path) -> list[dict[str, Any]]:
    whole = path.read_bytes()
    text = gzip.decompress(whole) if path.suffix == ".gz" else whole
    return [json.loads(line) for line in text.splitlines()]


def check(
    prompt: dict[str, Any], driver: str, *, is_async: bool, mode: Any = "verify", **options: Any
) -> tuple[str, str, dict[str, Any]]:
    """Returns the outcome of a prompt, what is wrong with it ("" if nothing is), and the decision."""
    ran: Calls = []
    tools = [recording_tool(schema, ran) for schema in prompt["tools"]]
    proposals = {name: to_calls(responses[0]) for name, responses in prompt["responses"].items()}
    members = [
        ModelAgent(name, model(calls)) for name, calls in proposals.items() if name != driver
    ]
    council = CoECouncil(members, mode=mode, **options)
    agent = create_agent(model(proposals[driver]), tools, middleware=[council])
    given: Any = {"messages": prompt["question"]}
    first = list[Any]()
    parts = (
        asyncio.run(stream(agent, given))
        if is_async
        else list(agent.stream(given, stream_mode="values"))
    )
    for state in parts:
        if state.get("council") and not first:
            first.append(state["council"])
    (decision,) = first
    messages: Sequence[BaseMessage] = parts[-1]["messages"][len(prompt["question"]) :]
    wanted = [] if decision["calls"] is None else [key(call) for call in decision["calls"]]
    outcome = (
        "nothing goes on"
        if decision["calls"] is None
        else "calls go on"
        if wanted
        else "a text goes on"
    )
    if decision["proposer"] not in (None, "driver"):
        outcome += " from a member"
    proposer = driver if decision["proposer"] == "driver" else decision["proposer"]
    if decision["calls"] is not None and wanted != [key(call) for call in proposals[proposer]]:
        return outcome, "the calls that go on are not those that were proposed", decision
    if Counter(map(key, ran)) != Counter(wanted):
        return outcome, f"ran {len(ran)} calls instead of {len(wanted)}", decision
    replies = [one for one in messages if isinstance(one, ToolMessage)]
    asked = [
        call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls
    ]
    if [one.tool_call_id for one in replies] != asked or len(set(asked)) < len(asked):
        return outcome, "the replies are not in the order of the calls", decision
    if decision["calls"] is not None and any(one.status == "error" for one in replies):
        return outcome, "a call that went on was refused", decision
    return outcome, "", decision


async def stream(agent: Any, given: Any) -> list[Any]:
    return [state async for state in agent.astream(given, stream_mode="values")]


def recording_tool(schema: dict[str, Any], ran: Calls) -> StructuredTool:
    def run(**arguments: Any) -> str:
        ran.append({"name": schema["name"], "args": arguments})
        return "ran"

    return StructuredTool(
        name=schema["name"],
        description=schema.get("description", ""),
        args_schema=schema["parameters"],
        func=run,
    )


def to_calls(response: dict[str, Any]) -> Calls:
    return [
        {"name": call["name"], "args": call["arguments"], "id": f"call_{place}"}
        for place, call in enumerate(response["calls"] or ())
    ]


def model(calls: Calls) -> ScriptedDriver:
    """A model that proposes the calls, and says that it is done when it has a reply to them."""

    def say(messages: list[BaseMessage]) -> AIMessage:
        if not calls or isinstance(messages[-1], ToolMessage):
            return AIMessage(DONE)
        return AIMessage("", tool_calls=calls)

    return ScriptedDriver(script=say)


def key(call: dict[str, Any]) -> str:
    return json.dumps([call["name"], call["args"]], sort_keys=True)


if __name__ == "__main__":
    raise SystemExit(main())
