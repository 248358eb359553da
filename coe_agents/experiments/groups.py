"""Owns the step from samples to the score vectors of a group: some of the agents, clustered and judged as one group."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from coe_agents.evaluation import SampledQuestion
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.tallies import FloatArray, join_ties
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.policy.estimators import ESTIMATORS
from coe_agents.policy.statistics import Statistics
from coe_agents.text import quantity
from coe_agents.types import in_canonical_order

METRICS: Mapping[str, str] = {
    "Semantic Entropy": "semantic_entropy",
    "Regular Entropy": "regular_entropy",
    "P(False)": "p_false",
    "U_E": "epistemic",
    "U_A": "aleatoric",
    "CoE": "coe",
}
"""The paper's metrics, as it names and orders them, and our estimators. The first three are means over the models."""

DIVERGENCES: Mapping[str, str] = {
    "CoE (JS)": "coe_js",
    "CoE (Hellinger)": "coe_hellinger",
    "CoE (Wasserstein)": "coe_wasserstein",
}


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """A group's questions that could be judged.

    `correct` is whether the group's answer was right, in [0, 1]; of a tie the share of its answers that is right.
    """

    statistics: tuple[Statistics, ...]
    correct: FloatArray

    @property
    def n_ties(self) -> int:
        return sum(each.is_tied for each in self.statistics)

    @property
    def size(self) -> str:
        return f"{quantity(len(self.statistics), 'question')}, {quantity(self.n_ties, 'tie')}"

    def values(self, estimator: str) -> FloatArray | None:
        """Returns a score of each question, higher = less sure, values within 1e-9 equal; None if one lacks it."""
        found = [ESTIMATORS[estimator](each) for each in self.statistics]
        known = [value for value in found if value is not None]
        return join_ties(known) if known and len(known) == len(found) else None

    def means(self, *estimators: str) -> list[float]:
        """Returns the means of scores over the questions; those that a question lacks are left out."""
        return [float(values.mean()) for values in map(self.values, estimators) if values is not None]

    def auroc(self, estimator: str) -> float:
        values = self.values(estimator)
        return float("nan") if values is None else auroc(correct=self.correct, uncertainty=values)


def judge_group(
    questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup, *, n_samples: int | None = None
) -> JudgedGroup:
    """Clusters and judges the responses of some agents, in a cluster space of their own.

    A question is left out unless all of them responded and its correctness is known; a ValueError if none is left. Of
    each agent the first `n_samples` responses count; None: all.
    """
    chosen = of_agents(questions, agents, n_samples=n_samples)
    known = [(each, verdict) for each, verdict in setup.judge(chosen) if verdict is not None]
    if not known:
        raise ValueError(
            f'"questions" must hold one to which all of {", ".join(agents)} responded and whose correctness is known; '
            f"none of {len(questions)} is. Pass samples of these agents, with references or labels"
        )
    statistics, verdicts = zip(*known, strict=True)
    return JudgedGroup(statistics, np.array(verdicts))


def of_agents(
    questions: Iterable[SampledQuestion], agents: Sequence[str], *, n_samples: int | None = None
) -> list[SampledQuestion]:
    """Returns the questions to which all these agents responded, with their responses only, the first `n_samples`."""
    kept = []
    for question in questions:
        by_agent = {name: [each for each in question.responses if each["agent"] == name] for name in agents}
        if all(by_agent.values()):
            responses = tuple(each for name in agents for each in by_agent[name][:n_samples])
            kept.append(replace(question, responses=responses, failures=()))
    return kept


def order_by_responses(agents: Iterable[str], questions: Iterable[SampledQuestion]) -> list[str]:
    """Returns the agents in an order that only their responses decide: neither names nor the order given.

    Agents that responded alike to everything are interchangeable.
    """
    digests = {name: sha256() for name in agents}
    for question in sorted(questions, key=lambda each: each.id):
        for response in in_canonical_order(question.responses):
            if response["agent"] in digests:
                identity = (question.id, response["round"], response["index"], response["text"], response["logprob"])
                digests[response["agent"]].update(json.dumps(identity).encode())
    return sorted(digests, key=lambda name: digests[name].digest())
