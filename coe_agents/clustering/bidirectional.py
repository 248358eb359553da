"""Owns clustering by bidirectional entailment: one shared space, greedy, as few and as large requests as possible."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from coe_agents._removed import refuses_removed
from coe_agents.checks import flag, has_method, number
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.clustering.protocols import (
    CONTRADICTION,
    ENTAILMENT,
    NEUTRAL,
    EntailmentModel,
    check_batch,
    check_probabilities,
)

_Pairs = list[tuple[str, str]]


class BidirectionalEntailment:
    """A `Clusterer`: two responses mean the same where each entails the other.

    Responses are taken in the order given. The first one without a cluster represents a new one; each later one
    without a cluster joins it where it matches the representative, so a response belongs to the *first* cluster that it
    matches. The question is prepended to both sides of every pair.

    Only the pairs that matter are judged. Responses that differ only in white space, case, punctuation, articles or
    number format are merged, and the first of them is judged for all. All pairs of a wave (everything without a cluster
    against the newest representative) go to the model together, those of all questions in one request. The reverse
    direction is asked only where the forward one leaves a match possible. So any number of questions takes at most two
    requests per cluster of the question with the most clusters. The labels are the same as if one pair were judged at a
    time.

    Args:
        model: Judges the pairs. Wrap it in `entailment_wrappers.CountingEntailment` to learn how many were asked.
        strict: Each direction's most probable label must be entailment. With False, the rule of the semantic-entropy
            literature (Kuhn et al. 2023; Farquhar et al. 2024): neither direction is a contradiction, and not both are
            neutral.
        threshold: In strict mode, the least probability of entailment in each direction, in place of its being the
            most probable label.
        merge_variants: Whether responses that `normalize_answer` makes equal are merged without asking the model. With
            False, only responses that differ in nothing but white space are: for answers in which case or punctuation
            matters, such as code.

    Raises:
        TypeError: If `model` has no `predict`.
        ValueError: If `threshold` is not in (0, 1], or is given together with `strict=False`.

    Example:
        >>> import numpy as np
        >>> class SameLastWord:
        ...     def predict(self, pairs):
        ...         same = [premise.split()[-1] == hypothesis.split()[-1] for premise, hypothesis in pairs]
        ...         return np.array([[0.0, 0.0, 1.0] if each else [0.0, 1.0, 0.0] for each in same])
        >>> clusterer = BidirectionalEntailment(SameLastWord())
        >>> clusterer.cluster([["Paris", "Lyon", "It is Paris"]], ["What is the capital of France?"])
        [[0, 1, 0]]
    """

    @refuses_removed
    def __init__(
        self,
        model: EntailmentModel,
        *,
        strict: bool = True,
        threshold: float | None = None,
        merge_variants: bool = True,
    ) -> None:
        advice = "Pass an entailment model, such as coe_agents.backends.TransformersEntailment"
        has_method(model, "predict", '"model"', advice=advice)
        if threshold is not None and not strict:
            raise ValueError(
                '"threshold" must be None with strict=False; '
                f"got {threshold}: the lenient rule reads the most probable labels. Omit one of the two"
            )
        if threshold is not None:
            number(threshold, '"threshold"', above=0, most=1, advice="Try 0.5")
        self.model = model
        self.strict = flag(strict, '"strict" of BidirectionalEntailment')
        self.threshold = threshold
        self.merge_variants = merge_variants

    def with_model(self, model: EntailmentModel) -> "BidirectionalEntailment":
        """Returns a clusterer with the same rules and another model, such as this one's in a `CachedEntailment`."""
        return BidirectionalEntailment(
            model, strict=self.strict, threshold=self.threshold, merge_variants=self.merge_variants
        )

    def cluster(
        self, responses: Sequence[Sequence[str]], questions: Sequence[str]
    ) -> list[list[int]]:
        """Returns the labels of each question's responses; see `Clusterer`.

        Raises:
            ValueError: Also if the model does not return one distribution per pair.
        """
        batch, question_texts = check_batch(responses, questions)
        normalize = normalize_answer if self.merge_variants else str
        searches = []
        for texts, question in zip(batch, question_texts, strict=True):
            plain = [" ".join(text.split()) for text in texts]
            searches.append(_Search(list(map(normalize, plain)), plain, question))

        unfinished = [search for search in searches if search.open_cluster()]
        while unfinished:
            pairs: _Pairs = []
            for search in unfinished:
                pairs += search.pairs()
            matched = iter(self._match(pairs))
            for search in unfinished:
                search.close_cluster(list(islice(matched, len(search.waiting))))
            unfinished = [search for search in unfinished if search.open_cluster()]
        return [search.labels_of_responses() for search in searches]

    def _match(self, pairs: _Pairs) -> list[bool]:
        """Returns of each pair whether both sides mean the same."""
        forward = self._judge(pairs)
        is_possible = forward == ENTAILMENT if self.strict else forward != CONTRADICTION
        possible = np.flatnonzero(is_possible)
        matched: NDArray[np.bool_] = np.zeros(len(pairs), dtype=bool)
        if possible.size:
            turned: _Pairs = []
            for place in possible:
                premise, hypothesis = pairs[place]
                turned.append((hypothesis, premise))
            backward = self._judge(turned)

            if self.strict:
                matched[possible] = backward == ENTAILMENT
            else:
                both_neutral = (forward[possible] == NEUTRAL) & (backward == NEUTRAL)
                matched[possible] = (backward != CONTRADICTION) & ~both_neutral
        verdicts: list[bool] = matched.tolist()
        return verdicts

    def _judge(self, pairs: _Pairs) -> NDArray[np.intp]:
        """Returns each pair's label as a column index; ties go to the label that speaks more against a match."""
        probabilities = check_probabilities(
            self.model.predict(pairs), n_pairs=len(pairs), model=self.model
        )
        if self.threshold is None:
            labels: NDArray[np.intp] = np.argmax(probabilities, axis=1)
            return labels
        entailed = probabilities[:, ENTAILMENT] >= self.threshold
        other_labels = np.argmax(probabilities[:, :ENTAILMENT], axis=1)
        return np.where(entailed, ENTAILMENT, other_labels)


class _Search:
    """The clusters of one question, as far as they are known; one key represents all responses with the same text.

    `waiting` are the keys without a cluster, in order.
    """

    def __init__(self, keys: list[str], texts: list[str], question: str) -> None:
        self._keys = keys
        self._sides = dict[str, str]()
        for key, text in zip(keys, texts, strict=True):
            # the first of the texts that are merged is judged for all
            self._sides.setdefault(key, f"{question.strip()} {text}".strip())
        self.waiting = list(self._sides)
        self._labels = dict[str, int]()
        self._representative = ""
        self._newest = -1

    def open_cluster(self) -> bool:
        """Makes the first waiting key a representative; returns whether any is left to compare it with."""
        if self.waiting:
            self._representative, *self.waiting = self.waiting
            self._newest += 1
            self._labels[self._representative] = self._newest
        return bool(self.waiting)

    def pairs(self) -> _Pairs:
        return [(self._sides[self._representative], self._sides[key]) for key in self.waiting]

    def close_cluster(self, matched: Sequence[bool]) -> None:
        """Puts the waiting keys that match into the newest cluster; the rest wait on."""
        still_waiting = []
        for key, is_match in zip(self.waiting, matched, strict=True):
            if is_match:
                self._labels[key] = self._newest
            else:
                still_waiting.append(key)
        self.waiting = still_waiting

    def labels_of_responses(self) -> list[int]:
        return [self._labels[key] for key in self._keys]
