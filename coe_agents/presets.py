"""Owns what a group is made of in a line: agents of names of models, and presets of answers.

A preset says how answers are asked for, read and compared, which must fit together.
"""

import copy
import json
import re
import warnings
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel

from coe_agents._removed import refuses_removed
from coe_agents.agents import ChatEntailment, ModelAgent
from coe_agents.agents.requests.chat_models import free_name
from coe_agents.checks import has_method, instance, integer, on_repeated
from coe_agents.clustering import (
    BidirectionalEntailment,
    Clusterer,
    EntailmentModel,
    MathematicsMatch,
    NormalizedMatch,
)
from coe_agents.clustering.answers import canonical_answer
from coe_agents.clustering.protocols import AnswerPreset
from coe_agents.clustering.refusals import answer_kind
from coe_agents.prompts import ANSWER_ALONE, BRIEF_ANSWER, VALUE_ALONE
from coe_agents.types import MOST_SAMPLES, Agent

_OPENING = re.compile(
    r"(?:it|this|that|he|she|they)(?:\s+(?:is|was|are|were)|['’]s)\s+(?=\S)", re.IGNORECASE
)


def agents_of(
    models: Sequence[str | BaseChatModel | Agent], *, where: str, n_samples: int | None = None
) -> list[Agent]:
    """Returns an agent for each name and chat model, named after it, and agents as they are.

    A name is "provider:model", or "transformers:" and a folder or hub id, which is loaded in this process. Where
    several would have one name, the later ones have a number behind it. With `n_samples`, an agent is a copy that gives
    so many responses: see `_with_n_samples`. `where` says in an error what `models` are.
    """
    if isinstance(models, str) or not isinstance(models, Sequence):
        raise TypeError(
            f"{where} must be a list of names, chat models or agents; got {models!r:.200}. "
            'Write ["openai:gpt-5-mini", ...]'
        )
    if n_samples is not None:
        integer(n_samples, '"n_samples"', least=1, most=MOST_SAMPLES, advice="5 to 10 are usual")
    repeated = on_repeated(models)
    if repeated is not None:
        warnings.warn(repeated, stacklevel=4)  # of whoever calls `ask`

    taken = []
    for model in models:
        if not isinstance(model, str | BaseChatModel):
            taken.append(getattr(model, "name", ""))

    agents: list[Agent] = []
    for model in models:
        if isinstance(model, str | BaseChatModel):
            name = free_name(model, taken)
            taken.append(name)
            agents.append(ModelAgent(name, model, n_samples=n_samples))
        elif n_samples is None:
            agents.append(model)
        else:
            agents.append(_with_n_samples(model, n_samples))
    return agents


def _with_n_samples(agent: Agent, n_samples: int) -> Agent:
    """Returns a copy of an agent that gives so many responses; the caller's own stays as it is.

    An agent without an attribute of this name has no number to replace. At temperature 0 all responses would be the
    same, so one is enough.
    """
    if not hasattr(agent, "n_samples") or getattr(agent, "temperature", None) == 0:
        return agent
    own = copy.copy(agent)
    vars(own)["n_samples"] = n_samples
    return own


def check_answers(answers: object) -> None:
    """Raises a TypeError for what is no preset of answers."""
    advice = "Pass short_answers() or sentences(judge)"
    instance(answers, AnswerPreset, '"answers"', what="a preset", advice=advice)


def preset(kind: str, clusterer: Clusterer, instruction: str | None = None) -> AnswerPreset:
    """Returns the preset of a kind, "short", "mathematics" or "sentences", with a clusterer that was already made."""
    usual, canonicalize = _KINDS[kind]
    if instruction is None:
        instruction = usual
    where = f'"instruction" of {kind} answers'
    instance(instruction, str, where, what="a text", advice='Pass "" to add none')
    recorded = kind
    if instruction != usual:
        recorded = f"{kind} with the instruction {json.dumps(instruction)}"
    return AnswerPreset(
        kind=kind,
        recorded=recorded,
        instruction=instruction,
        canonicalize=canonicalize,
        clusterer=clusterer,
    )


@refuses_removed
def short_answers(*, instruction: str | None = None) -> AnswerPreset:
    """Returns the preset for names, numbers and few words: asked for alone, and compared after normalisation.

    It needs no further model. Of a response such as "It is Paris." only "Paris." is compared. A whole sentence of other
    words is an answer of its own: where answers need sentences, use `sentences`.

    Args:
        instruction: Added to each agent's prompt, in place of the usual one; "" adds none, for models that it confuses.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> from coe_agents import ask
        >>> ask("Capital of France?", [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["It is Paris."])]).coe
        0.0
    """
    return preset("short", NormalizedMatch(), instruction)


@refuses_removed
def mathematics(*, instruction: str | None = None) -> AnswerPreset:
    r"""Returns the preset for numbers and formulas: asked for alone, and compared by value.

    It needs no further model, but the extra `math`. References are compared by value, too.

    Args:
        instruction: As of `short_answers`.

    Raises:
        ImportError: If `math-verify` is not installed.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> from coe_agents import ask
        >>> halves = [ScriptedAgent("a", [r"$\frac{1}{2}$"]), ScriptedAgent("b", ["The answer is 0.5."])]
        >>> ask("What is 2 / 4?", halves, answers=mathematics()).coe
        0.0
    """
    return preset("mathematics", MathematicsMatch(), instruction)


@refuses_removed
def sentences(
    judge: EntailmentModel | BaseChatModel | str, *, instruction: str | None = None
) -> AnswerPreset:
    """Returns the preset for answers of a sentence, which mean the same if each entails the other.

    Args:
        judge: An entailment model, such as `TransformersEntailment("microsoft/deberta-large-mnli")`; or a chat model
            or its name, such as "openai:gpt-5-mini", which is then asked once for each direction of each pair of
            different wordings that is compared (`ChatEntailment`): 28 to 105 requests for 15 wordings.
        instruction: As of `short_answers`.

    Raises:
        TypeError: If `judge` is something else.

    Example:
        >>> from coe_agents.testing.doubles import TableEntailment
        >>> sentences(TableEntailment({})).kind
        'sentences'
    """
    model: Any = judge
    if isinstance(judge, BaseChatModel) or (isinstance(judge, str) and ":" in judge):
        model = ChatEntailment(judge)
    advice = 'Pass an entailment model, a chat model, or "provider:model"'
    has_method(model, "predict", '"judge" of sentences', advice=advice)
    return preset("sentences", BidirectionalEntailment(model), instruction)


def short_answer(text: str) -> str:
    """Returns `canonical_answer(text)`, without an opening such as "It is"; a refusal stays whole.

    Example:
        >>> [short_answer(text) for text in ("It's Paris.", "The answer is Paris.", "It is impossible to say.")]
        ['Paris.', 'Paris', 'It is impossible to say.']
    """
    answer = canonical_answer(text)
    opening = _OPENING.match(answer)
    if opening and answer_kind(answer) == "answer":
        return answer[opening.end() :]
    return answer


_KINDS = {
    "short": (ANSWER_ALONE, short_answer),
    "mathematics": (VALUE_ALONE, short_answer),
    "sentences": (BRIEF_ANSWER, canonical_answer),
}
