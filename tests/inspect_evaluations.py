"""A program for an interpreter with inspect_ai: evaluates with the approver of examples/inspect_approver.py.

It prints one line of JSON: what the approver decided, what ran, and what the group was asked, case by case.
"""

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
from inspect_ai.tool import ToolCall

from coe_agents.testing import ScriptedAgent

example = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "inspect_approver.py"))
group_approver = example["group_approver"]
transfer = example["transfer"]


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


def evaluate(*proposals, outputs=None, after=()):
    """Returns what the approver did with the calls of a model, which by default pays 50, and what it asked."""
    agents = [
        ScriptedAgent(name, one if isinstance(one, Exception) else [one])
        for name, one in zip("abc", proposals, strict=True)
    ]
    approvers = [group_approver(agents, min_support=0.7), *after]
    sample = Sample(
        [
            ChatMessageSystem(content="You pay bills."),
            ChatMessageUser(content="Ann is owed 50 euros."),
        ]
    )
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
                {
                    "by": event.approver,
                    **event.model_dump(include={"decision", "explanation", "metadata"}),
                }
                for event in done.events
                if isinstance(event, ApprovalEvent)
            ],
            "ran": [one.text for one in done.messages if one.role == "tool" and one.error is None],
            "told": [
                one.error.message
                for one in done.messages
                if one.role == "tool" and one.error is not None
            ],
            "requests": agents[0].requests,
        }


yes = auto_approver("approve")
no = auto_approver("reject")
found = {
    "agreement": evaluate([pay(50)], [pay(50.0)], [pay(50)]),
    "another call": evaluate([pay(5)], [pay(5)], [pay(5)], after=[yes]),
    "a failure": evaluate([pay(50)], [pay(50)], RuntimeError("the key is sk-1"), after=[no]),
    "an unknown argument": evaluate(
        *[[pay(50)]] * 3, outputs=[say(pay(50, note="!")), say()], after=[yes]
    ),
}
print(json.dumps(found))
