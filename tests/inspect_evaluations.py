"""A program for an interpreter with inspect_ai: evaluates with the approver of examples/inspect_approver.py.

It prints one line of JSON: what the approver decided, what ran, and what the group was asked, case by case.
"""

import asyncio
import json
import runpy
from pathlib import Path
from tempfile import TemporaryDirectory

from inspect_ai import Task
from inspect_ai import eval as run_evaluation
from inspect_ai.approval import ApprovalPolicy, auto_approver
from inspect_ai.dataset import Sample
from inspect_ai.event import ApprovalEvent
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import ToolCall, ToolCallView
from langchain_core.messages import AIMessage, ToolMessage

from coe_agents import ModelAgent
from coe_agents.testing import ScriptedAgent
from coe_agents.testing.driver import ScriptedDriver

example = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "inspect_approver.py"))
group_approver, transfer = example["group_approver"], example["transfer"]


def pay(amount, **more):
    return {"name": "transfer", "args": {"to": "Ann", "amount": amount, **more}}


def say(*calls):
    """Returns a message of the evaluated model."""
    message = ChatMessageAssistant(
        content="" if calls else "Done.",
        tool_calls=[ToolCall(f"{id(call)}", call["name"], call["args"]) for call in calls] or None,
    )
    output = ModelOutput.from_message(message)
    output.usage = ModelUsage()
    return output


def evaluate(*proposals, agents=None, outputs=None, after=()):
    """Returns what the approver did with the calls of a model, which by default pays 50, and what it asked."""
    agents = agents or [
        ScriptedAgent(name, one if isinstance(one, Exception) else [one])
        for name, one in zip("abc", proposals, strict=True)
    ]
    approvers = [group_approver(agents, min_support=0.7), *after]
    sample = Sample([ChatMessageSystem(content="You pay bills."), ChatMessageUser(content="Ann is owed 50 euros.")])
    task = Task(
        [sample],
        solver=[use_tools(transfer()), generate()],
        approval=[ApprovalPolicy(one, "transfer") for one in approvers],
    )
    model = get_model("mockllm/model", custom_outputs=outputs or [say(pay(50)), say()])
    with TemporaryDirectory() as folder:
        (log,) = run_evaluation(task, model, log_dir=folder, display="none")
        (done,) = log.samples
        return {
            "status": log.status,
            "approvals": [
                {"by": event.approver, **event.model_dump(include={"decision", "explanation", "metadata"})}
                for event in done.events
                if isinstance(event, ApprovalEvent)
            ],
            "ran": [one.text for one in done.messages if one.role == "tool" and one.error is None],
            "told": [one.error.message for one in done.messages if one.role == "tool" and one.error is not None],
            "requests": getattr(agents[0], "requests", None),
        }


def judge(messages):
    """Replies as a chat model that pays what is owed, until the money was sent."""
    is_done = any(isinstance(message, ToolMessage) for message in messages)
    return AIMessage("Done." if is_done else "", tool_calls=[] if is_done else [{**pay(50.0), "id": "1"}])


def approve_outside_an_evaluation():
    approver = group_approver([ScriptedAgent("a", [[pay(50)]])], min_support=0.7)
    call = ToolCall("1", "transfer", {})
    return asyncio.run(approver(message="", call=call, view=ToolCallView(), history=[])).decision


def refuse(agents, min_support):
    try:
        group_approver(agents, min_support=min_support)
    except ValueError as error:
        return str(error)
    return None


a, b = ScriptedAgent("a", [[]]), ScriptedAgent("b", [[]])
nothing = ScriptedAgent("c", [[]], weight=0)
yes, no = auto_approver("approve"), auto_approver("reject")
found = {
    "agreement": evaluate([pay(50)], [pay(50.0)], [pay(50)]),
    "another call": evaluate([pay(5)], [pay(5)], [pay(5)], after=[yes]),
    "split, nobody else": evaluate([pay(50)], [pay(5)], []),
    "a failure": evaluate([pay(50)], [pay(50)], RuntimeError("the key is sk-1"), after=[no]),
    "an unknown argument": evaluate(*[[pay(50)]] * 3, outputs=[say(pay(50, note="!")), say()], after=[yes]),
    "chat models": evaluate(
        agents=[ModelAgent(name, ScriptedDriver(script=judge), n_samples=2) for name in "ab"],
        outputs=[say(pay(50)), say(pay(50)), say()],
    ),
    "outside": approve_outside_an_evaluation(),
    "refused": [refuse([a, a], 0.7), refuse([nothing], 0.7), refuse([a, b], 0.5), refuse([], 0.7), refuse([a, b], 0.7)],
}
print(json.dumps(found))
