"""Owns scores as tallies that merge: figures of any number of questions, in memory that does not grow with them."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.evaluation.metrics.histograms import GROUPS, WHOLE, ScoreTally
from coe_agents.evaluation.metrics.selective_prediction import bins_of
from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray, area_under_roc
from coe_agents.evaluation.samples import SampledQuestion
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion
from coe_agents.evaluation.scoring.estimators import BEST_SINGLE_MODEL, CONFIDENCES, Estimator
from coe_agents.evaluation.scoring.scored_question import ScoredQuestion, ScoringNames, ScoringSetup, score_each
from coe_agents.evaluation.scoring.scores import QuestionCounts, hash_of, in_second_half
from coe_agents.evaluation.scoring.statistics import ActionKind
from coe_agents.policy import Weighting
from coe_agents.uncertainty.answers import TIE

_HELD = 4_096
"""Rows that are added to the histograms together."""
_BINS = 10

_AgentHalf = tuple[str, bool]
"""An agent's name, and one half of the questions: whether it is the second."""


class KindTally:
    """The tallies of some rows: all, or those whose answer calls a tool, or does not.

    Attributes:
        n: The number of rows.
        right: How much of them is right, in units of 2^-32.
        scores: Each score's tally; rows without a value of it are not in it.
        agents: The tally of each agent's entropy on each half of the questions.
        miscalibration: Of each claimed probability of being right, by its tenths: the sum of what is right minus what
            is claimed, in units of 2^-32.
    """

    def __init__(self) -> None:
        self.n = self.right = 0
        self.scores: dict[str, ScoreTally] = {}
        self.agents: dict[_AgentHalf, ScoreTally] = {}
        self.miscalibration: dict[str, IntArray] = {}

    @classmethod
    def of(cls, parts: Iterable["KindTally"]) -> "KindTally":
        """Returns the tally of all rows of the parts."""
        tally = cls()
        for part in parts:
            tally.merge(part)
        return tally

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KindTally) and self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment]  # it changes as answers are added

    def add(self, rows: list[ScoredQuestion]) -> None:
        """Adds rows whose `correct` is known."""
        correct = np.array([row.correct for row in rows], dtype=np.float64)
        groups = np.array([int.from_bytes(hash_of(row.id)[1:5], "big") % GROUPS for row in rows])
        halves = np.array([in_second_half(row.id) for row in rows])
        self.n += len(rows)
        self.right += int(np.rint(correct * WHOLE).astype(np.int64).sum())
        for name in {name for row in rows for name in row.scores}:
            values = _column(row.scores.get(name) for row in rows)
            known = ~np.isnan(values)
            if known.any():
                self.scores.setdefault(name, ScoreTally()).add(values[known], correct[known], groups[known])
            if name in CONFIDENCES:
                self._claim(name, correct[known], 1.0 - values[known])
        for agent in {name for row in rows for name in row.agents}:
            values = _column(row.agents[agent].entropy if agent in row.agents else None for row in rows)
            for half in (False, True):
                known = ~np.isnan(values) & (halves == half)
                if known.any():
                    tally = self.agents.setdefault((agent, half), ScoreTally())
                    tally.add(values[known], correct[known], groups[known])

    def merge(self, other: "KindTally") -> None:
        """Adds the rows of another tally, which stays as it is."""
        self.n += other.n
        self.right += other.right
        for name, tally in other.scores.items():
            self.scores.setdefault(name, ScoreTally()).merge(tally)
        for key, tally in other.agents.items():
            self.agents.setdefault(key, ScoreTally()).merge(tally)
        for name, sums in other.miscalibration.items():
            self.miscalibration[name] = self.miscalibration.get(name, np.zeros(_BINS, dtype=np.int64)) + sums

    def calibration_error(self, name: str) -> float:
        """Returns the expected calibration error of a claimed probability of being right; there is at least a row."""
        return float(np.abs(self.miscalibration[name]).sum() / WHOLE / self.n)

    def _parts(self) -> tuple[object, ...]:
        claims = {name: sums.tolist() for name, sums in self.miscalibration.items()}
        return self.n, self.right, self.scores, self.agents, claims

    def _claim(self, name: str, correct: FloatArray, claimed: FloatArray) -> None:
        confidence = np.clip(claimed, 0.0, 1.0)
        sums = self.miscalibration.setdefault(name, np.zeros(_BINS, dtype=np.int64))
        np.add.at(sums, bins_of(confidence, _BINS), np.rint((correct - confidence) * WHOLE).astype(np.int64))


class TalliedScores(QuestionCounts):
    """What `Scores` holds of a set of samples, without a row for every question; for thousands of them, and more.

    Tallies of parts merge to exactly the tally of the whole, in any order. The attributes are those of `Scores`, and:

    Attributes:
        kinds: The tallies by whether what is judged calls a tool; of texts under None.
        missing: By score, the number of scored questions that lack it.
    """

    def __init__(self, names: ScoringNames) -> None:
        super().__init__()
        self.criterion, self.clusterer, self.weighting, self.estimators, self.proposer = names
        self.missing: Counter[str] = Counter()
        self._kinds: dict[ActionKind | None, KindTally] = {}
        self._waiting: dict[ActionKind | None, list[ScoredQuestion]] = {}

    def add(self, row: ScoredQuestion) -> None:
        """Adds a question."""
        super().add(row)
        if row.correct is None:
            return
        self.missing.update(name for name, value in row.scores.items() if value is None)
        waiting = self._waiting.setdefault(row.kind, [])
        waiting.append(row)
        if len(waiting) == _HELD:
            self._add_waiting()

    def merge(self, other: "TalliedScores") -> None:
        """Adds the questions of another part, scored in the same way."""
        super().merge(other)
        self.missing.update(other.missing)
        self._add_waiting()
        for kind, tally in other.kinds.items():
            self._kinds.setdefault(kind, KindTally()).merge(tally)

    @property
    def kinds(self) -> dict[ActionKind | None, KindTally]:
        self._add_waiting()
        return self._kinds

    def whole(self) -> KindTally:
        """Returns the tally of all rows, whatever their kind."""
        return KindTally.of(self.kinds.values())

    def add_best_single_model(self, whole: KindTally, *parts: KindTally) -> dict[str, int]:
        """Adds the score `best_single_model` to all of these, and returns each absent score with its count.

        It is as in `best_single_model`, but that it is absent where several agents tie as the best.
        """
        absent = {name: n for name, n in self.missing.items() if n}
        for tally in (whole, *parts):
            for name in absent:
                tally.scores.pop(name, None)
        chosen = {half: self._best_on(whole, half=not half) for half in (False, True)}
        if whole.n and None in chosen.values():
            absent[BEST_SINGLE_MODEL] = whole.n
            return absent
        for tally in (whole, *parts) if whole.n else ():
            best = tally.scores[BEST_SINGLE_MODEL] = ScoreTally()
            for half, agent in chosen.items():
                if agent is not None and (agent, half) in tally.agents:
                    best.merge(tally.agents[agent, half])
        return absent

    def _best_on(self, whole: KindTally, *, half: bool) -> str | None:
        names = sorted(self._agents)
        complete = [
            name for name in names if sum(len(whole.agents.get((name, h), ())) for h in (False, True)) == whole.n
        ]
        tallies = {name: whole.agents.get((name, half)) for name in complete}
        rated = {
            name: float(area_under_roc(tally.fine.tally())[0]) for name, tally in tallies.items() if tally is not None
        }
        if not rated or any(np.isnan(rate) for rate in rated.values()):
            return None
        best = [name for name, rate in rated.items() if rate > max(rated.values()) - TIE]
        return best[0] if len(best) == 1 else None

    def _add_waiting(self) -> None:
        for kind, rows in self._waiting.items():
            if rows:
                self._kinds.setdefault(kind, KindTally()).add(rows)
                rows.clear()


def tally(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    criterion: Criterion = CRITERIA["reference_or_label"],
    entailment: EntailmentModel | None = None,
    estimators: Mapping[str, Estimator] | None = None,
    proposer: str | None = None,
) -> TalliedScores:
    """Scores every question as `score` does, and keeps tallies only: memory does not grow with the questions.

    `report` then gives figures that are near the exact ones, with a bound on how far from them each may be. The
    arguments and errors are those of `score`, without `on_question`.
    """
    setup = ScoringSetup(clusterer, criterion, entailment, weighting, estimators or {}, proposer)
    return to_tallies(score_each(questions, setup), setup.names)


def to_tallies(rows: Iterable[ScoredQuestion], names: ScoringNames) -> TalliedScores:
    """Returns the tallies of rows in any order."""
    tallied = TalliedScores(names)
    for row in rows:
        tallied.add(row)
    return tallied


def _column(values: Iterable[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
