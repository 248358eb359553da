"""Owns what the page knows of each question: a line in the overview, and all responses in packed blocks."""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from coe_agents.evaluation.page.curves import curves
from coe_agents.evaluation.samples import Sample, SampledQuestion
from coe_agents.evaluation.scoring import Scores
from coe_agents.evaluation.statistics import Statistics
from coe_agents.policy.measurement import DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD
from coe_agents.policy.weighing import shares

BLOCK = 100
"""Questions whose responses are unpacked together, when one of them is opened."""
LONGEST = 4000
"""Characters that are shown of a response; a longer one is cut, and says so."""
_DIGITS = 7
_COLUMNS = ("id", "text", "answer", "kind", "correct", "coe", "aleatoric", "epistemic")


class Rows:
    """The questions in the order in which they come; only what is packed is kept of their responses."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._waiting: list[dict[str, Any]] = []
        self._blocks: list[str] = []

    def counting(self, questions: Iterable[SampledQuestion]) -> Iterator[SampledQuestion]:
        """Passes the questions on, and keeps those without a response, which are not measured."""
        for question in questions:
            if not question.responses:
                self._line(question, None, None, None, None, None, None)
                self._detail({"references": question.references, "failures": _failures(question)})
            yield question

    def add(self, statistics: Statistics, correct: float | None) -> None:
        """Keeps a question that was measured; a tie is of a kind of its own, since it is never answered."""
        found = statistics.measurement
        uncertainty = (_short(value) for value in (found.coe, found.aleatoric, found.epistemic))
        answer, kind = found.answer, str(found.answer_kind)
        if statistics.is_tied:
            answer, kind = " | ".join(map(statistics.answer_of, statistics.leading)), "tie"
        verdict = None if correct is None else float(correct)
        self._line(statistics.question, _cut(answer, 300), kind, verdict, *uncertainty)
        self._detail(
            {
                "references": statistics.question.references,
                "support": [_short(share) for share in statistics.support],
                "agents": [
                    [name, agent.n_responses, agent.weighting, _short(agent.entropy), [_short(p) for p in row]]
                    for name, row in zip(statistics.names, statistics.distributions, strict=True)
                    for agent in [found.agents[name]]
                ],
                "responses": _responses(statistics),
                "failures": _failures(statistics.question),
            }
        )

    def overview(self, scores: Scores) -> dict[str, Any]:
        """Returns what the page needs at once; `scores` has a value for each question whose `correct` is known."""
        return {
            "block": BLOCK,
            "thresholds": [DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD],
            "questions": self._columns,
            "scores": {name: [_short(value) for value in values] for name, values in scores.values.items()},
            "curves": curves(scores),
        }

    def blocks(self) -> list[str]:
        """Returns the blocks, `BLOCK` questions each."""
        return [*self._blocks, *([packed(self._waiting)] if self._waiting else [])]

    def _line(self, question: SampledQuestion, *values: Any) -> None:
        for name, value in zip(_COLUMNS, (question.id, _cut(question.text), *values), strict=True):
            self._columns[name].append(value)

    def _detail(self, detail: dict[str, Any]) -> None:
        self._waiting.append(detail)
        if len(self._waiting) == BLOCK:
            self._blocks.append(packed(self._waiting))
            self._waiting = []


def packed(value: Any) -> str:
    """Returns JSON, as base64 of gzip; the same for the same value.

    Example:
        >>> json.loads(gzip.decompress(base64.b64decode(packed(["</script>"]))))
        ['</script>']
    """
    plain = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(plain, mtime=0)).decode()


def _responses(statistics: Statistics) -> list[list[Any]]:
    """Each agent's different responses: agent, cluster, text, answer where it differs, verdict, how often, share."""
    total: Counter[tuple[Any, ...]] = Counter()
    weight: dict[tuple[Any, ...], float] = {}
    parts = shares(statistics.log_probs, statistics.agents)
    for sample, agent, cluster, part in zip(
        statistics.responses, statistics.agents.tolist(), statistics.labels.tolist(), parts.tolist(), strict=True
    ):
        answer = None if sample["answer"] is None or sample["answer"] == sample["text"].strip() else sample["answer"]
        key = (agent, cluster, _cut(sample["text"]), answer and _cut(answer), sample["correct"])
        total[key] += 1
        weight[key] = weight.get(key, 0.0) + part
    return [[*key, n, _short(weight[key])] for key, n in total.items()]


def _failures(question: SampledQuestion) -> list[list[str]]:
    def told(sample: Sample) -> list[str]:
        return [sample["agent"], _cut(sample["error"] or "")]

    return [told(sample) for sample in question.failures]


def _cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}") + 0.0
