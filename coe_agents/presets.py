"""Owns the presets of answers: how they are asked for, read and compared, which must fit together."""

import re

from langchain_core.language_models import BaseChatModel

from coe_agents.agents import ChatEntailment
from coe_agents.checks import has_method
from coe_agents.clustering import BidirectionalEntailment, Clusterer, EntailmentModel, NormalizedMatch, canonical_answer
from coe_agents.clustering.protocols import AnswerPreset
from coe_agents.clustering.refusals import answer_kind
from coe_agents.prompts import ANSWER_ALONE, BRIEF_ANSWER

_OPENING = re.compile(r"(?:it|this|that|he|she|they)(?:\s+(?:is|was|are|were)|['’]s)\s+(?=\S)", re.IGNORECASE)


def preset(kind: str, clusterer: Clusterer) -> AnswerPreset:
    """Returns the preset of a kind, "short" or "sentences", with a clusterer that was already made."""
    instruction, canonicalize = _KINDS[kind]
    return AnswerPreset(kind=kind, instruction=instruction, canonicalize=canonicalize, clusterer=clusterer)


def short_answers() -> AnswerPreset:
    """Returns the preset for names, numbers and few words: asked for alone, and compared after normalisation.

    It needs no further model. Of a response such as "It is Paris." only "Paris." is compared. A whole sentence of other
    words is an answer of its own: where answers need sentences, use `sentences`.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> from coe_agents import ask
        >>> ask("Capital of France?", [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["It is Paris."])]).coe
        0.0
    """
    return preset("short", NormalizedMatch())


def sentences(judge: EntailmentModel | BaseChatModel) -> AnswerPreset:
    """Returns the preset for answers of a sentence, which mean the same if each entails the other.

    Args:
        judge: An entailment model, such as `TransformersEntailment("microsoft/deberta-large-mnli")`; or a chat model,
            which is then asked once for each direction of each pair of different wordings that is compared
            (`ChatEntailment`): 28 to 105 requests for 15 wordings.

    Raises:
        TypeError: If `judge` is neither.

    Example:
        >>> from coe_agents.testing import TableEntailment
        >>> sentences(TableEntailment({})).kind
        'sentences'
    """
    model = ChatEntailment(judge) if isinstance(judge, BaseChatModel) else judge
    has_method(model, "predict", '"judge" of sentences', advice="Pass an entailment model, or a chat model")
    return preset("sentences", BidirectionalEntailment(model))


def short_answer(text: str) -> str:
    """Returns `canonical_answer(text)`, without an opening such as "It is"; a refusal stays whole.

    Example:
        >>> [short_answer(text) for text in ("It's Paris.", "The answer is Paris.", "It is impossible to say.")]
        ['Paris.', 'Paris', 'It is impossible to say.']
    """
    answer = canonical_answer(text)
    opening = _OPENING.match(answer)
    return answer[opening.end() :] if opening and answer_kind(answer) == "answer" else answer


_KINDS = {"short": (ANSWER_ALONE, short_answer), "sentences": (BRIEF_ANSWER, canonical_answer)}
