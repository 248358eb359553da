"""Owns who supports a claim: word overlap with the best sentence of a response, or an entailment model on its passages.

A judgement of claims against texts is an array of shape `(n_claims, n_texts, 2)`: how far each text supports each
claim, and how far it contradicts it, both in [0, 1]; what is left of 1 is silence.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from coe_agents.checks import has_method, integer
from coe_agents.claims.measure import FloatArray
from coe_agents.claims.splitting import sentences
from coe_agents.claims.wording import particulars, words
from coe_agents.clustering.answers import strip_reasoning
from coe_agents.clustering.protocols import (
    CONTRADICTION,
    ENTAILMENT,
    EntailmentModel,
    check_probabilities,
)
from coe_agents.clustering.refusals import answer_kind
from coe_agents.clustering.unjudged import note_unjudged


class Asked(NamedTuple):
    """The claims and the texts of one question, each claim to be judged against each text."""

    claims: Sequence[str]
    texts: Sequence[str]


class Support(Protocol):
    """Anything that judges whether texts support claims."""

    def judge(self, asked: Sequence[Asked]) -> Sequence[NDArray[np.floating[Any]]]:
        """Returns the judgement of each question; all of them are given in one call, so that requests can be joined."""
        ...


class Overlap:
    """A `Support` without a model: the share of the claim's words that the best sentence of a text has.

    With the set W(x) of content words, numbers and names of x, the support of claim c by a text is

        max over its sentences s that agree with c of |W(c) & W(s)| / |W(c)|,

    in [0, 1]; 0 for a text without such sentences. Words of grammar do not count, unless the claim has no others; case,
    accents of typing and the endings of English do not matter. In scripts that write no spaces each character counts as
    a word.

    A sentence agrees with a claim if it has its particulars: its numbers, signs and addresses, in every language; its
    negations and no others that concern it, by English words; and its names in their order, where "by" names who did
    it. Else it is silent: "born in 1950" does not support "born in 1951". Overlap never sees a contradiction, and what
    a changed word alone turns, such as "before", it does not see. A threshold on it is of use where the texts of
    several models are compared, and where it was calibrated.

    Example:
        >>> texts = ["Lovelace was a poet. She, Ada, was born in London.", "Ada was not born in London.", "Who?"]
        >>> Overlap().judge([Asked(["Ada was born in London to Byron."], texts)])[0][..., 0].tolist()
        [[0.75, 0.0, 0.0]]
    """

    def judge(self, asked: Sequence[Asked]) -> list[FloatArray]:
        """Returns the judgement of each question; see `Support`."""
        return [_overlap(claims, texts) for claims, texts in asked]


def _overlap(claims: Sequence[str], texts: Sequence[str]) -> FloatArray:
    judged = np.zeros((len(claims), len(texts), 2))
    parts_of_texts = [passages(text) for text in texts]
    for row, claim in enumerate(claims):
        uncited = _CITATION.sub("", claim)
        for number, parts in enumerate(parts_of_texts):
            judged[row, number, 0] = _best_share(uncited, parts)
    return judged


def _best_share(claim: str, parts: Sequence[str]) -> float:
    """Returns the share of the claim's words in the best part that agrees with it; 0 where none does."""
    wanted = words(claim)
    for place in _best_first(wanted, parts)[:_TRIED]:
        n_shared = len(wanted & words(parts[place]))
        if not n_shared:
            break
        if particulars(claim).agree_with(particulars(parts[place])):
            return n_shared / len(wanted)
    return 0.0


def _best_first(wanted: frozenset[str], parts: Sequence[str]) -> list[int]:
    """Returns the places of the parts, those that share the most words first; of equally good ones the earlier."""
    n_shared = [len(wanted & words(part)) for part in parts]
    return sorted(range(len(parts)), key=n_shared.__getitem__, reverse=True)


@lru_cache(maxsize=4096)
def passages(text: str) -> tuple[str, ...]:
    """Returns the sentences of a text that can support a claim, without the numbers of citations: the first 500.

    Reasoning does not count. Those that decline say nothing, and neither does what follows a first one that declines:
    it is about something else.

    >>> passages("Ada wrote programs [1]. I don't know when."), passages("I don't know. Bo is a poet.")
    (('Ada wrote programs .',), ())
    """
    parts = list[str]()
    for sentence in sentences(strip_reasoning(text))[:_MOST]:
        if answer_kind(sentence.text) != "refusal":
            parts.append(_CITATION.sub("", sentence.text))
        elif not parts:
            return ()
    return tuple(parts)


_MOST = 500
_TRIED = 5
"""So many sentences of a text are tried for a claim, those that share the most words first."""
_CITATION = re.compile(
    r"(?<![\s(\[])\[\^?\d{1,3}\]"  # behind a word or another one
    r"|\[\^?\d{1,3}\](?=[\s\[\]\^\d]*(?:[.,;:!?)]|\Z))"  # at the end of a part
)
"""The numbers of citations, as in "[1]" and "[^1]"; the one in "takes [500] mg" stands where a word does."""


class EntailedBy:
    """A `Support` by an entailment model: whether the best passages of a text entail or contradict the claim.

    The premise is made of the sentences of the text that share the most words with the claim, in their own order, and
    the hypothesis is the claim; equal pairs of all questions are asked once, in one call of the model. Support is the
    probability of entailment, and contradiction that of contradiction.

    Args:
        model: An entailment model, such as `TransformersEntailment("microsoft/deberta-large-mnli")`, or
            `ChatEntailment(model)`, which asks a chat model once for each pair.
        n_passages: How many sentences of a text are shown with a claim.
    """

    def __init__(self, model: EntailmentModel, *, n_passages: int = 3) -> None:
        has_method(
            model,
            "predict",
            '"model" of EntailedBy',
            advice="Pass an entailment model, or ChatEntailment",
        )
        self.model = model
        self.n_passages = integer(n_passages, '"n_passages"', least=1, advice="3 suits most")

    def judge(self, asked: Sequence[Asked]) -> list[FloatArray]:
        """Returns the judgement of each question; see `Support`.

        Raises:
            CoEError: If the model fails, or is a chat model that gives no verdict on any pair.
            ValueError: If it returns something else than probabilities.
        """
        # equal pairs are asked about once, and each is written to all of its places
        places_of = dict[tuple[str, str], list[FloatArray]]()
        judged = list[FloatArray]()
        for claims, texts in asked:
            judgement = np.zeros((len(claims), len(texts), 2))
            judged.append(judgement)
            for row, claim in enumerate(claims):
                for column, text in enumerate(texts):
                    premise = self._premise(claim, text)
                    if premise:  # a text without passages is silent
                        places = places_of.setdefault((premise, claim), [])
                        places.append(judgement[row, column])

        if places_of:
            pairs = list(places_of)
            with note_unjudged() as noted:
                probabilities = check_probabilities(
                    self.model.predict(pairs), n_pairs=len(pairs), model=self.model
                )
            noted.check()
            rows = probabilities[:, [ENTAILMENT, CONTRADICTION]]
            for places, row in zip(places_of.values(), rows, strict=True):
                for place in places:
                    place[:] = row
        return judged

    def _premise(self, claim: str, text: str) -> str:
        parts = passages(text)
        shown = sorted(_best_first(words(claim), parts)[: self.n_passages])
        return " ".join(parts[place] for place in shown)
