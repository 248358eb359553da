"""Owns `ask` and `aask`: one call that builds a group, asks it, and returns a `GroupDecision`."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from typing_extensions import Unpack

from coe_agents._removed import names_of_arguments, refuse_others
from coe_agents.decision import GroupDecision
from coe_agents.errors import GroupUnavailableError
from coe_agents.graph import GraphOptions, create_coe_graph
from coe_agents.graph.builder import GraphArguments
from coe_agents.policy.calibrated import UnkeptRiskWarning
from coe_agents.presets import agents_of
from coe_agents.types import Agent


def ask(
    question: str,
    models: Sequence[str | BaseChatModel | Agent],
    *,
    n_samples: int | None = None,
    **arguments: Unpack[GraphArguments],
) -> GroupDecision:
    """Asks several models one question and returns the group's answer, or its refusal.

    Args:
        question: What to ask.
        models: Names such as "openai:gpt-5-mini" (see LangChain's `init_chat_model`) or "transformers:FOLDER", chat
            models, or agents of your own.
        n_samples: Responses from each model, and from each agent in place of its own number, as of `sample`. None keeps
            that, and is 5 for names and chat models.
        arguments: As of `create_coe_graph`, with the same defaults: how answers are asked for and compared (`answers`,
            or a `clusterer`), the `policy`, `max_rounds` and `strategies`, and all others.

    Warns:
        UserWarning: A model is named more than once.

    Raises:
        TypeError: If `models` holds something else, or is a single one.
        ValueError: If it is empty.
        GroupUnavailableError: If no model answered: a key or a package is missing, or no server can be reached.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> ask("Capital of France?", models=[ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Paris"])]).answer
        'Paris'
    """
    refuse_others("ask", arguments, known=_ARGUMENTS, owner="create_coe_graph")
    graph = _graph(models, n_samples, arguments)
    try:
        return GroupDecision.from_state(graph.invoke({"question": question}))
    except GroupUnavailableError as error:
        # it says what to do: the frames of LangGraph do not
        raise error.with_traceback(None) from None


async def aask(
    question: str,
    models: Sequence[str | BaseChatModel | Agent],
    *,
    n_samples: int | None = None,
    **arguments: Unpack[GraphArguments],
) -> GroupDecision:
    """Asks the group without blocking the event loop; see `ask`."""
    refuse_others("aask", arguments, known=_ARGUMENTS, owner="create_coe_graph")
    graph = _graph(models, n_samples, arguments)
    try:
        return GroupDecision.from_state(await graph.ainvoke({"question": question}))
    except GroupUnavailableError as error:
        raise error.with_traceback(None) from None


_ARGUMENTS = names_of_arguments(ask)


def _graph(
    models: Sequence[str | BaseChatModel | Agent], n_samples: int | None, arguments: GraphArguments
) -> Any:
    agents = agents_of(models, where='"models"', n_samples=n_samples)
    options = arguments.get("options") or GraphOptions()
    arguments["options"] = replace(options, on_unavailable="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnkeptRiskWarning)  # the reason of the decision says it
        return create_coe_graph(agents, **arguments).compile()
