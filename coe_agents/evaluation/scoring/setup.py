"""Owns what a score depends on besides the samples: one value, passed whole from the command to the estimators."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.evaluation.samples import SampledQuestion
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion, with_verdicts
from coe_agents.evaluation.scoring.estimators import Estimator
from coe_agents.evaluation.scoring.statistics import Statistics, iter_statistics
from coe_agents.policy import Weighting


@dataclass(frozen=True, slots=True)
class ScoringSetup:
    """How responses become scores and verdicts.

    Attributes:
        clusterer: Decides which responses mean the same.
        criterion: Decides which answers are right.
        entailment: For the distances between clusters that `coe_wasserstein` and the graph scores read; None: 0/1.
        weighting: How responses count within their agent: "auto", "frequency" or "probability".
        estimators: Scores beyond the built-in and the installed ones, by name: each takes `Statistics` and returns a
            float, higher = less sure, or None where it cannot be computed.
    """

    clusterer: Clusterer
    criterion: Criterion = CRITERIA["reference_or_label"]
    entailment: EntailmentModel | None = None
    weighting: Weighting = "auto"
    estimators: Mapping[str, Estimator] = field(default_factory=dict)

    def judge(self, questions: Iterable[SampledQuestion]) -> Iterator[tuple[Statistics, float | None]]:
        """Yields the statistics of each question that has a response, with the verdict on the group's answer.

        Raises:
            ValueError: `weighting` is "probability" and an agent lacks log-probabilities.
        """
        statistics = iter_statistics(
            questions, clusterer=self.clusterer, weighting=self.weighting, entailment=self.entailment
        )
        return with_verdicts(statistics, self.criterion)
