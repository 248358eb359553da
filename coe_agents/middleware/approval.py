"""Owns what a person is told of a call that the group is uncertain about."""

from langchain_core.messages import ToolCall

from coe_agents.graph.people import ActionRequest, fence
from coe_agents.middleware.verdict import Verdict, call_as_json, in_words
from coe_agents.policy.wording import decomposition
from coe_agents.text import for_prompt


def about_uncertain(call: ToolCall, verdict: Verdict) -> ActionRequest:
    """Returns what a person is asked, as Markdown in which no text of a model is rendered."""
    parts = [fence(f"{call['name']} {call_as_json(call['args'])}"), fence(in_words(verdict))]
    coe, aleatoric, epistemic = verdict["coe"], verdict["aleatoric"], verdict["epistemic"]
    if coe is not None and aleatoric is not None and epistemic is not None:
        divergence = verdict.get("divergence") or "kl"
        parts += [f"CoE {decomposition(coe=coe, aleatoric=aleatoric, epistemic=epistemic, divergence=divergence)}"]
    votes = list[str]()
    for name, vote in verdict["votes"].items():
        ranked = sorted(vote.items(), key=lambda one: -one[1])
        votes.append(f"{for_prompt(name)}: {', '.join(f'{for_prompt(reply)} {share:.0%}' for reply, share in ranked)}")
    votes += [f"{for_prompt(name)}: no vote, {for_prompt(why)}" for name, why in verdict["failed_judges"].items()]
    if votes:
        parts += ["Votes of the judges:", fence("\n".join(votes))]
    if verdict["question"] is not None:
        parts += ["What they were asked:", fence(verdict["question"])]
    return ActionRequest(call["name"], call["args"], "\n\n".join(parts))
