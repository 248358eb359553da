"""Owns labelled claims: files of them (`*.claims.jsonl`), the `ClaimPolicy` chosen on them, and their figures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coe_agents.checks import number
from coe_agents.claims.measure import measure_claims
from coe_agents.claims.policy import ClaimCalibration, ClaimPolicy
from coe_agents.claims.support import Asked, Support
from coe_agents.errors import SamplesError
from coe_agents.evaluation.calibration.risk_control import (
    keeps_risk,
    last_passing,
    weighted_risk_bound,
)
from coe_agents.evaluation.metrics import rejection_accuracy
from coe_agents.evaluation.metrics.bootstrap import resamples, to_plain, with_interval
from coe_agents.evaluation.metrics.tallies import (
    BoolArray,
    FloatArray,
    IntArray,
    Ranking,
    area_under_roc,
)
from coe_agents.evaluation.tables import RecordFile, find_form, read_records
from coe_agents.files import parse_json
from coe_agents.types import JsonObject
from coe_agents.uncertainty.ties import TIE

SUFFIXES = (".claims.jsonl", ".claims.jsonl.gz")
_HINT = (
    'A line is {"id", "question", "entity", "answers": {agent: {"text", "claims": [{"text", "supported"}]}}}, with '
    '"samples": {agent: [text]} where there are more'
)
_BATCH = 20
"""So many questions are judged in one call of a model."""


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """One question of a file: each agent's answer with its labelled claims, and what else the agents said.

    Attributes:
        entity: What the question is about; questions of one entity are not independent.
        answers: The text of each agent, by name.
        claims: The claims of each answer, by agent.
        supported: For each of these, whether it is true; None where nobody knows.
        samples: Further responses to the question, by agent.
    """

    id: str
    entity: str
    answers: Mapping[str, str]
    claims: Mapping[str, Sequence[str]]
    supported: Mapping[str, Sequence[bool | None]]
    samples: Mapping[str, Sequence[str]]

    @property
    def texts(self) -> list[tuple[str, str]]:
        """All responses, the answers first, each with who gave it."""
        texts = list(self.answers.items())
        for agent, samples in self.samples.items():
            for sample in samples:
                texts.append((agent, sample))
        return texts


@dataclass(frozen=True, slots=True)
class JudgedClaims:
    """The labelled claims of one agent's answer to one question.

    Attributes:
        between: Support by the other agents, shape `(n,)`; NaN without any.
        within: Support by the agent's own samples, shape `(n,)`; NaN without any.
        right: Whether each claim is true, shape `(n,)`.
    """

    question: str
    entity: str
    agent: str
    between: FloatArray
    within: FloatArray
    right: BoolArray


def are_claims(paths: Sequence[Path]) -> bool:
    """Returns whether files hold labelled claims, by their names, or by the fields of SelfCheckGPT's passages."""
    return all(path.name.endswith(SUFFIXES) or _holds_passages(path) for path in paths)


def _holds_passages(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        for _, text in read_records(RecordFile(path, find_form(path))):
            return "gpt3_sentences" in parse_json(text)
    except (OSError, ValueError, TypeError):
        return False  # whoever reads it as samples says what is wrong
    return False


def read_labelled(paths: Iterable[Path]) -> Iterator[LabelledQuestion]:
    """Yields the questions of the files.

    Raises:
        SamplesError: A file cannot be read, or a line holds something else.
    """
    for path in paths:
        try:
            form = find_form(path)
            if path.name.endswith(SUFFIXES):
                form = "lines"
            file = RecordFile(path, form)
            for number, text in read_records(file):
                yield _question(text, file.place(number))
        except OSError as error:
            raise SamplesError(f"{path} cannot be read: {error}", hint=_HINT) from error


def _from_passage(passage: JsonObject) -> JsonObject:
    """Returns a row of SelfCheckGPT's set as a line of claims: each sentence is one, and is supported if accurate."""
    claims = []
    for sentence, label in zip(passage["gpt3_sentences"], passage["annotation"], strict=True):
        claims.append({"text": sentence, "supported": label == "accurate"})
    return {
        "id": passage["wiki_bio_test_idx"],
        "answers": {"gpt3": {"text": passage["gpt3_text"], "claims": claims}},
        "samples": {"gpt3": passage["gpt3_text_samples"]},
    }


def _question(text: str | bytes, place: str) -> LabelledQuestion:
    texts = dict[str, str]()
    claims = dict[str, list[str]]()
    supported = dict[str, list[bool | None]]()
    samples = dict[str, list[str]]()
    try:
        record = parse_json(text)
        if "gpt3_sentences" in record:
            record = _from_passage(record)
        for agent, answer in record["answers"].items():
            labelled = answer["claims"]
            texts[agent] = _text(answer["text"])
            claims[agent] = [_text(claim["text"]) for claim in labelled]
            supported[agent] = [_label(claim["supported"]) for claim in labelled]
        for agent, further in (record.get("samples") or {}).items():
            samples[agent] = [_text(text) for text in further]
        return LabelledQuestion(
            id=str(record["id"]),
            entity=str(record.get("entity") or record["id"]),
            answers=texts,
            claims=claims,
            supported=supported,
            samples=samples,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SamplesError(
            f"{place}: this is no question with claims: {error!r}", hint=_HINT
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text must be a string; got {value!r:.50}")
    return value


def _label(value: object) -> bool | None:
    if not isinstance(value, bool | None):
        raise TypeError(f'"supported" must be true, false or null; got {value!r:.50}')
    return value


def judge_labelled(
    questions: Iterable[LabelledQuestion], support: Support
) -> Iterator[JudgedClaims]:
    """Yields the claims with a label of each answer, judged against all responses to its question."""
    unread = iter(questions)
    while batch := list(islice(unread, _BATCH)):
        drafts = list[tuple[LabelledQuestion, str]]()
        asked = list[Asked]()
        for question in batch:
            texts = [text for _, text in question.texts]
            for agent in question.answers:
                if question.claims[agent]:
                    drafts.append((question, agent))
                    asked.append(Asked(question.claims[agent], texts))
        judgements = support.judge(asked) if asked else []
        for (question, agent), judged in zip(drafts, judgements, strict=True):
            labelled = _with_labels(question, agent, judged)
            if labelled.right.size:
                yield labelled


def _with_labels(
    question: LabelledQuestion, agent: str, judged: npt.NDArray[np.floating[Any]]
) -> JudgedClaims:
    """Returns what was measured of those claims of an answer that have a label."""
    names = [name for name, _ in question.texts]
    # the answers stand in front of the samples
    measured = measure_claims(judged, names, draft=names.index(agent))

    places = list[int]()
    labels = list[bool]()
    for place, label in enumerate(question.supported[agent]):
        if label is not None:
            places.append(place)
            labels.append(label)
    return JudgedClaims(
        question=question.id,
        entity=question.entity,
        agent=agent,
        between=measured.between[places],
        within=measured.within[places],
        right=np.array(labels, dtype=np.bool_),
    )


_FIRST = 0.1
"""The share of claims, those of most support, at which the tests begin."""
KEPT_SHARES = (0.25, 0.5, 0.75, 1.0)
"""The shares of claims at which the precision of the kept is shown."""


def calibrate_claims(
    judged: Sequence[JudgedClaims],
    *,
    risk: float,
    confidence: float = 0.9,
    support: str = "Overlap",
) -> ClaimPolicy | None:
    """Returns the policy that keeps the most claims at a stated share of wrong ones; None if no threshold keeps it.

    The risk of a threshold t on the support is the expected share of wrong claims among those that are kept, with the
    claims of all answers to a question together:

        R(t) = E[wrong kept claims of a question / kept claims of it],    0 where none is kept,

    the false discovery rate of Benjamini and Hochberg (1995). Questions are the independent units, not claims: those of
    one entity are one. The shares of the questions lie in [0, 1]; their mean is bounded from above by
    `coe_agents.evaluation.calibration.risk_control.weighted_risk_bound` (Waudby-Smith and Ramdas, 2024). Thresholds are
    tested one after the other, from the tenth of the claims with the most support on, in steps of a fiftieth, and the
    last before the first failure is chosen. Which are tested does not depend on labels, so that the risk is kept with
    `confidence` if it rises with the threshold (Angelopoulos et al., "Learn then test", 2021).

    The claims of all answers count; the gate gives only the draft with the most content that is kept.

    Args:
        judged: The labelled claims; an answer is one element.
        risk: In (0, 1).
        confidence: In (0, 1).
        support: The class of the support, which a gate compares with its own.

    Raises:
        ValueError: If a share is not in (0, 1), there are no claims, or nothing but one agent's.
    """
    for name, value in (("risk", risk), ("confidence", confidence)):
        number(value, f'"{name}"', above=0, below=1, advice="Pass 0.2, for example")
    claims = [answer for answer in judged if not np.isnan(answer.between).any()]
    if not claims:
        raise ValueError(
            '"judged" must hold claims that another agent could support; got none. Add agents or labels'
        )
    pooled = _Pooled.of(claims)
    rising = np.sort(pooled.uncertainty)
    alike = np.ones(pooled.n_entities)  # all questions were chosen with one probability

    def passes(n: int) -> bool:
        losses = pooled.losses(float(rising[n - 1]))
        return keeps_risk(losses, alike, risk=risk, confidence=confidence)

    start = max(1, round(_FIRST * rising.size))
    chosen = last_passing(rising, start, passes)
    if chosen is None:
        return None
    threshold, n_kept = chosen
    bound = weighted_risk_bound(pooled.losses(threshold), alike, confidence=confidence)
    is_wrong_and_kept = pooled.is_kept(threshold) & ~pooled.right
    n_given = 0
    for answer in claims:
        keeps = 1.0 - answer.between <= threshold + TIE
        n_given += bool(keeps.any())
    calibration = ClaimCalibration(
        risk=risk,
        confidence=confidence,
        bound=min(risk, bound),
        n_claims=int(rising.size),
        n_questions=pooled.n_entities,
        n_kept=n_kept,
        n_wrong=int(is_wrong_and_kept.sum()),
        n_answers=len(claims),
        n_given=n_given,
        support=support,
    )
    return ClaimPolicy(max(0.0, 1.0 - threshold), None, calibration)


class _Pooled(NamedTuple):
    """The claims of many answers in one row.

    Attributes:
        uncertainty: 1 - support by the other agents.
        uncertainty_within: 1 - support by the agent's own samples.
        entity: The number of each one's entity.
    """

    uncertainty: FloatArray
    uncertainty_within: FloatArray
    right: BoolArray
    entity: IntArray

    @classmethod
    def of(cls, answers: Sequence[JudgedClaims]) -> "_Pooled":
        number_of = dict[str, int]()
        entities = list[IntArray]()
        for answer in answers:
            number = number_of.setdefault(answer.entity, len(number_of))
            entities.append(np.full(answer.right.size, number))
        return cls(
            uncertainty=1.0 - np.concatenate([answer.between for answer in answers]),
            uncertainty_within=1.0 - np.concatenate([answer.within for answer in answers]),
            right=np.concatenate([answer.right for answer in answers]),
            entity=np.concatenate(entities),
        )

    @property
    def n_entities(self) -> int:
        return int(self.entity.max()) + 1

    def is_kept(self, threshold: float) -> BoolArray:
        return self.uncertainty <= threshold + TIE

    def losses(self, threshold: float) -> FloatArray:
        """Returns the share of wrong claims among the kept of each entity; 0 where none is kept."""
        kept = self.is_kept(threshold)
        n_kept = np.bincount(self.entity[kept], minlength=self.n_entities)
        n_wrong = np.bincount(self.entity[kept & ~self.right], minlength=self.n_entities)
        return n_wrong / np.maximum(n_kept, 1)


def claim_figures(judged: Sequence[JudgedClaims], *, n_resamples: int = 1000) -> JsonObject:
    """Returns how well support between models tells claims that are not supported from others, agent by agent.

    Returns:
        `{"agents": {name: {...}}}`: "n_claims" with a label, "n_answers" and "n_wrong" among them; "auroc" of "this
        claim is wrong" by 1 - support, and "auroc_within" by the agent's own samples (None without), each as [value,
        low, high] with a 95 % bootstrap interval over entities; and "precision": the share of right claims among the
        kept, by the share of claims that is kept, ties in part.
    """
    of_agent: dict[str, list[JudgedClaims]] = {}
    for answer in judged:
        of_agent.setdefault(answer.agent, []).append(answer)
    figures = {name: _figures(of_agent[name], n_resamples) for name in sorted(of_agent)}
    return {"agents": figures}


def _figures(claims: Sequence[JudgedClaims], n_resamples: int) -> JsonObject:
    pooled = _Pooled.of(claims)
    right = pooled.right
    uncertainty = pooled.uncertainty

    precision = dict[str, float]()
    if not np.isnan(uncertainty).any():
        for share in KEPT_SHARES:
            precision[f"{share:g}"] = rejection_accuracy(
                correct=right, uncertainty=uncertainty, retention=share
            )
    auroc_within = None
    if not np.isnan(pooled.uncertainty_within).any():
        auroc_within = _auroc(pooled, pooled.uncertainty_within, n_resamples)

    return {
        "n_claims": int(right.size),
        "n_answers": len(claims),
        "n_wrong": int((~right).sum()),
        "auroc": _auroc(pooled, uncertainty, n_resamples),
        "auroc_within": auroc_within,
        "precision": precision,
    }


def _auroc(claims: _Pooled, uncertainty: FloatArray, n_resamples: int) -> list[float | None]:
    if np.isnan(uncertainty).any():
        return [None, None, None]
    ranking = Ranking(claims.right, uncertainty)
    value = float(area_under_roc(ranking.tally())[0])

    drawn = []
    for counts_of_entities in resamples(claims.n_entities, n_resamples=n_resamples):
        # a claim is drawn as often as its entity
        tally = ranking.tally(counts_of_entities[:, claims.entity])
        drawn.append(area_under_roc(tally))
    return to_plain(with_interval(value, np.concatenate(drawn)))
