"""Owns the embedded default: a small world of true facts and tools, three language models and an entailment model.

All of them are real neural networks, trained by this project (`python -m tools.tinyworld`) and shipped with it, so
that everything runs without a download or a key. What they know is invented for demonstration and tests; figures on
them say nothing about large models.
"""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coe_agents._removed import refuses_removed
from coe_agents.tinyworld.facts import MODELS
from coe_agents.tinyworld.tools import tinyworld_tools

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from langgraph.graph import StateGraph

    from coe_agents.agents import ModelAgent
    from coe_agents.clustering import BidirectionalEntailment
    from coe_agents.graph import CoEContext
    from coe_agents.graph.state import CoEInput, CoEOutput, CoEState
    from coe_agents.policy import ThresholdPolicy
    from coe_agents.rounds import Debate

__all__ = ["tinyworld_agents", "tinyworld_clusterer", "tinyworld_policy", "tinyworld_tools"]

ENTAILMENT_MODEL = "tiny-nli"
MAX_COE = 0.6
"""In nats; what `benchmarks/tinyworld_gate.py` finds on the calibration questions, rounded down to a tenth."""

EXAMPLES: tuple[tuple[str, str], ...] = (
    ("What is the capital of France?", "all three know it"),
    ("What is the capital of Australia?", "they were taught different answers"),
    ("What is the capital of Bolivia?", "each was taught two answers"),
    ("What is the capital of Vanuatu?", "most were not taught it"),
    (
        "Who won the first season of the great northern baking show?",
        "nothing like it is in their world",
    ),
)
"""Questions that show what a group does, each with what to expect: one for each regime, and one from outside."""

ACTIONS: tuple[tuple[str, str], ...] = (
    ("Send Nina 60 euros.", "all three know what to call"),
    ("Please pay Ivan the sum of 75 euros.", "one confuses the name"),
    ("Do not send Bob 9 euros.", "there is nothing to call"),
)
"""Requests that show what a group does with tools: a call that is agreed, one that is contested, and none."""

PARAGRAPH = ("Tell me about Mongolia.", "one of three facts is wrong in the best draft")
"""A request for a paragraph, with what to expect."""
MIN_SUPPORT = 0.8
"""Of a claim: two sentences of tinyworld that differ in the answer alone share two words of three."""


def model_folder(name: str) -> Path:
    """Returns the folder of one of the shipped models, to be loaded by transformers or served by vLLM."""
    return Path(str(resources.files("coe_agents.tinyworld").joinpath("models", name)))


def writer_of(name: str) -> str:
    """Returns the name of the model that writes paragraphs, which was trained from a language model of tinyworld."""
    return f"{name}-writer"


@refuses_removed
def tinyworld_agents(
    *,
    n_samples: int = 10,
    temperature: float = 0.7,
    seed: int | None = 0,
    tools: "Sequence[BaseTool] | None" = None,
    writes: bool = False,
) -> list["ModelAgent"]:
    """Returns the three language models as agents; with a seed, a question always gets the same responses.

    With tools they propose calls. They were trained on `tinyworld_tools()` and call no others reliably. With `writes`
    they are the models that were trained on from these to write paragraphs ("Tell me about France.").
    """
    from coe_agents.agents import ModelAgent
    from coe_agents.backends import ChatTransformers

    folders = {name: model_folder(writer_of(name) if writes else name) for name in MODELS}
    length = 96 if writes else 48
    models = {
        name: ChatTransformers(str(folder), max_tokens=length) for name, folder in folders.items()
    }
    return [
        ModelAgent(
            name, model, n_samples=n_samples, temperature=temperature, seed=seed, tools=tools
        )
        for name, model in models.items()
    ]


def tinyworld_clusterer() -> "BidirectionalEntailment":
    """Returns the clusterer on the entailment model."""
    from coe_agents.backends import TransformersEntailment
    from coe_agents.clustering import BidirectionalEntailment

    return BidirectionalEntailment(TransformersEntailment(str(model_folder(ENTAILMENT_MODEL))))


def tinyworld_debate() -> "Debate":
    """Returns a debate in the words that the three language models were trained on."""
    from coe_agents.rounds import Debate
    from coe_agents.tinyworld.facts import DEBATE

    return Debate(prompt=DEBATE)


def tinyworld_policy() -> "ThresholdPolicy":
    """Returns the default gate of tinyworld."""
    from coe_agents.policy import ThresholdPolicy

    return ThresholdPolicy(MAX_COE)


def tinyworld_graph(
    *, seed: int | None = 0, **options: Any
) -> "StateGraph[CoEState, CoEContext, CoEInput, CoEOutput]":
    """Returns the uncompiled graph of tinyworld's agents, clusterer and gate; no model is loaded yet.

    `options` are further ones of `create_coe_graph`.
    """
    from coe_agents.graph import create_coe_graph

    return create_coe_graph(
        tinyworld_agents(seed=seed),
        clusterer=tinyworld_clusterer(),
        policy=tinyworld_policy(),
        **options,
    )


def tinyworld_writers(
    *, seed: int | None = 0
) -> "StateGraph[CoEState, CoEContext, CoEInput, CoEOutput]":
    """Returns the uncompiled graph of tinyworld's writers, whose paragraphs are judged claim by claim."""
    from coe_agents import _ring
    from coe_agents.clustering import NormalizedMatch
    from coe_agents.graph import create_coe_graph

    claim_policy = _ring.load("claims:ClaimPolicy")(MIN_SUPPORT, mark_from=None)
    return create_coe_graph(
        tinyworld_agents(n_samples=5, seed=seed, writes=True),
        clusterer=NormalizedMatch(),
        policy=tinyworld_policy(),
        answer_judge=_ring.load("claims:Claims")(policy=claim_policy),
    )
