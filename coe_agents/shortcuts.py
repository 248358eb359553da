"""Owns `ask` and `aask`: one call that builds a group, asks it, and returns a `GroupDecision`."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel

from coe_agents.clustering import Clusterer
from coe_agents.clustering.protocols import AnswerPreset
from coe_agents.decision import GroupDecision
from coe_agents.errors import GroupUnavailableError
from coe_agents.graph import create_coe_graph
from coe_agents.policy import Policy, RegimePolicy
from coe_agents.policy.guarantee import UNKEPT
from coe_agents.presets import agents_of, short_answers
from coe_agents.rounds import Strategy
from coe_agents.types import Agent, Regime


def ask(
    question: str,
    models: Sequence[str | BaseChatModel | Agent],
    *,
    n_samples: int = 5,
    answers: AnswerPreset | None = None,
    clusterer: Clusterer | None = None,
    policy: Policy | None = None,
    max_rounds: int = 1,
    strategies: Mapping[Regime, str | Strategy] | str | Strategy | None = None,
) -> GroupDecision:
    """Asks several models one question and returns the group's answer, or its refusal.

    Args:
        question: What to ask.
        models: Names such as "openai:gpt-5-mini" (see LangChain's `init_chat_model`) or "transformers:FOLDER", chat
            models, or agents of your own.
        n_samples: Responses from each model; agents keep their own number.
        answers: How answers are asked for and compared: `short_answers()` by default; `sentences(judge)` where a name
            or a number does not do.
        clusterer: Compares answers, in place of a preset, of which nothing is asked for then.
        policy: Decides whether to answer; by default `RegimePolicy()`, which answers in consensus only.
        max_rounds: The most rounds, for a policy that asks for another one, such as `FixedRounds`.
        strategies: How another round is asked, "debate", or by regime `{"conflict": "debate"}`; see `create_coe_graph`.

    Raises:
        TypeError: If `models` holds something else, or is a single one.
        ValueError: If it is empty.
        GroupUnavailableError: If no model answered: a key or a package is missing, or no server can be reached.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> ask("Capital of France?", models=[ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Paris"])]).answer
        'Paris'
    """
    options = {"clusterer": clusterer, "max_rounds": max_rounds, "strategies": strategies}
    graph = _graph(models, n_samples, answers, policy, **options)
    try:
        return GroupDecision.from_state(graph.invoke({"question": question}))
    except GroupUnavailableError as error:
        raise error.with_traceback(
            None
        ) from None  # which says what to do: the frames of LangGraph do not


async def aask(
    question: str,
    models: Sequence[str | BaseChatModel | Agent],
    *,
    n_samples: int = 5,
    answers: AnswerPreset | None = None,
    clusterer: Clusterer | None = None,
    policy: Policy | None = None,
    max_rounds: int = 1,
    strategies: Mapping[Regime, str | Strategy] | str | Strategy | None = None,
) -> GroupDecision:
    """Asks the group without blocking the event loop; see `ask`."""
    options = {"clusterer": clusterer, "max_rounds": max_rounds, "strategies": strategies}
    graph = _graph(models, n_samples, answers, policy, **options)
    try:
        return GroupDecision.from_state(await graph.ainvoke({"question": question}))
    except GroupUnavailableError as error:
        raise error.with_traceback(None) from None


def _graph(
    models: Sequence[str | BaseChatModel | Agent],
    n_samples: int,
    answers: AnswerPreset | None,
    policy: Policy | None,
    **options: Any,
) -> Any:
    if isinstance(models, str) or not isinstance(models, Sequence):
        raise TypeError(
            f'"models" must be a list of names, chat models or agents; got {models!r}. '
            'Write models=["openai:gpt-5-mini", ...]'
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", UNKEPT)  # the reason of the decision says it
        return create_coe_graph(
            agents_of(models, n_samples=n_samples),
            answers=short_answers()
            if answers is None and options["clusterer"] is None
            else answers,
            policy=RegimePolicy() if policy is None else policy,
            on_unavailable="raise",
            **options,
        ).compile()
