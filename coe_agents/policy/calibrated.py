"""Owns `CalibratedPolicy`: answer up to a threshold that was chosen to keep a stated risk."""

import copy
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self, get_args

from coe_agents._removed import refuses_removed
from coe_agents.actions.proposals import called_tools
from coe_agents.checks import are_finite, instance, integer, number, one_of, require, share
from coe_agents.clustering.refusals import answer_kind
from coe_agents.errors import ConfigurationError
from coe_agents.extensions import is_reference
from coe_agents.files import write
from coe_agents.measurement.estimators import (
    RUN_TIME_SCORES,
    Estimator,
    check_estimator,
    compute_score,
    find_score,
    score_of,
)
from coe_agents.measurement.measurement import AgentMeasurement, Measurement, leading_cluster
from coe_agents.measurement.weighted_vote import (
    CONFIDENCE_VOTE_SHARE,
    TRUSTED_VOTE_SHARE,
    VOTE_SHARE,
    VOTE_SHARES,
    find_leaders,
    weighted_votes,
)
from coe_agents.measurement.wording import beside
from coe_agents.policy.base import Decision, Otherwise, check_otherwise
from coe_agents.policy.saved import check_weights, load_saved, with_tuples
from coe_agents.policy.support import LearnedSupport
from coe_agents.text import for_prompt, for_screen, quantity
from coe_agents.types import ANSWERABLE, JsonObject
from coe_agents.uncertainty.ties import TIE

_FORMAT = "coe-agents calibrated policy 2"
_REMEDY = "Calibrate again"
_GIVE = (
    'Pass it: CalibratedPolicy.load(path, estimator=...); or name it: `estimator = "package.module:name"` in [policy] '
    "of a configuration, --estimator of a command"
)
_require = partial(require, advice=_REMEDY)
AgentWeighting = Literal["frequency", "probability", "mixed"]
SUPPORT = "support"
"""The score of the proposals of one agent, which is no estimator's."""
_SHARES = {
    VOTE_SHARE: "vote share",
    CONFIDENCE_VOTE_SHARE: "vote share by confidence",
    TRUSTED_VOTE_SHARE: "trusted vote share",
    SUPPORT: "the others' support",
}
"""The scores that are what a share lacks to 1, with what the share is called."""


class UnkeptRiskWarning(UserWarning):
    """Warns that a calibrated risk does not hold for a group, which differs from the calibrated one."""

    def __init__(self, differences: str) -> None:
        super().__init__(f"the calibrated risk does not hold: {differences}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAgent:
    """How a group asks an agent; None where that is not known.

    Attributes:
        model: The name of its model.
        temperature: At which it is sampled.
        system_prompt: What it is told before the question; "" for nothing.
        n_samples: How many responses it gives.
        stated_confidence: Whether it is asked how sure it is, which changes what it says.
    """

    model: str | None = None
    temperature: float | None = None
    system_prompt: str | None = None
    n_samples: int | None = None
    stated_confidence: bool | None = None

    @classmethod
    def of(cls, agent: object) -> "AskedAgent":
        """Returns what an agent tells of itself, by attributes of these names (`model_name` for the model)."""
        system_prompt = getattr(agent, "system_prompt", None)
        if hasattr(agent, "system_prompt"):
            system_prompt = system_prompt or ""
        return cls(
            model=getattr(agent, "model_name", None),
            temperature=getattr(agent, "temperature", None),
            system_prompt=system_prompt,
            n_samples=getattr(agent, "n_samples", None),
            stated_confidence=getattr(agent, "stated_confidence", None),
        )


@dataclass(frozen=True, slots=True)
class CalibratedAgent(AskedAgent):
    """How an agent was sampled when the policy was calibrated: with its fewest and most responses to a question."""

    min_responses: int
    max_responses: int
    weighting: AgentWeighting

    def __post_init__(self) -> None:
        low = integer(self.min_responses, '"min_responses"', least=1, advice=_REMEDY)
        integer(self.max_responses, '"max_responses"', least=low, advice=_REMEDY)
        one_of(self.weighting, '"weighting"', get_args(AgentWeighting), advice=_REMEDY)
        for name in ("model", "system_prompt"):
            text = getattr(self, name)
            must = f'"{name}" of an agent must be a string or null'
            _require(text is None or isinstance(text, str), must, text)
        is_stated = self.stated_confidence
        must = '"stated_confidence" of an agent must be a boolean or null'
        _require(is_stated in (True, False, None), must, is_stated)
        for name in ("temperature", "n_samples"):
            value = getattr(self, name)
            if value is not None:
                number(value, f'"{name}" of an agent', least=0, advice=_REMEDY)


def check_risk(risk: object, confidence: object) -> None:
    """Refuses what is no risk, or no confidence: a share between 0 and 1."""
    for name, value in (("risk", risk), ("confidence", confidence)):
        number(value, f'"{name}"', above=0, below=1, advice="Pass a share such as 0.1")


@dataclass(frozen=True, slots=True)
class GroupThreshold:
    """The threshold of some proposals: of all that call one tool, or of all that call none.

    Attributes:
        threshold: The highest uncertainty that passes, finite; None if none keeps the risk.
        n_questions: How many of the proposals it was chosen on.
        n_answered: How many of them pass.
        n_wrong: How many of these were wrong.
        bound: The upper confidence bound of their risk; None without a threshold.
    """

    threshold: float | None
    n_questions: int
    n_answered: int
    n_wrong: int
    bound: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a policy was calibrated on, and the result.

    How far an agent counts has three values here: `weights` are the user's, with which the questions were measured;
    `trust` was found by the calibration, and counts in the score; `learned_support` was learned from labels, and counts
    for a proposal. The methods raise a `KeyError` where learned support needs an agent that was not measured.

    Attributes:
        risk: The highest allowed share of wrong answers among the answers given, in (0, 1).
        confidence: The probability, over calibration sets, that the risk is kept, in (0, 1).
        threshold: The highest uncertainty that is answered, in the unit of `score`, finite, and at least 0 unless the
            score is an estimator of your own; None if no threshold keeps the risk, so that nothing is answered.
        n_questions: How many questions the threshold was chosen on.
        n_answered: How many of these questions the threshold answers.
        n_wrong: How many of these answers were wrong, shares of mixed labels added up and rounded up.
        bound: The upper confidence bound of the risk at the threshold, in [0, 1]; None without a threshold.
        agents: The agents, by name.
        clusterer: The name of the clusterer.
        clusterer_options: Its options, such as its threshold, and the name of its model; None where they are not known.
        correctness: The name of the criterion of correctness.
        date: When the policy was calibrated, in ISO 8601.
        uncertainties: The uncertainty of each question, in ascending order; drift is measured against them.
        trust: The weights of the agents in the score, by name, which also choose the answer (but with
            "trusted_vote_share", which judges the answer of equal weights); None: the measurement's weights.
        trust_from: "agreement" or "learned", where `trust` or `learned_support` is from; None without.
        learned_support: What was learned of whose support of the proposer counts; None without.
        n_ties: How many of the questions had tied leading clusters, which are never answered.
        fit: What the weights, or the learned support, were fitted on. "whole": the questions on which the threshold was
            chosen, too; the guarantee is then empirical. "halves": the other half of the questions, so that the
            guarantee is that of equal weights. None where nothing was fitted.
        proposer: The agent whose first response is judged; None where the group's answer is judged. With a proposer the
            uncertainty is 1 - `proposals.support` of a measurement, unless support was learned, and `threshold`,
            `n_questions`, `n_answered`, `n_wrong` and `bound` are of the proposals that no group below contains.
        tools: The thresholds of the tools that have one of their own, by name: of proposals that call only this tool.
        no_call: Of proposals that call nothing; None where there were none.
        weights: The weights of the agents by name with which the questions were measured; None: equal ones.
        prompt: What was said to the agents around a question, as JSON; "" for nothing, None where that is not known.
        answers: What is recorded of the preset by which they were asked for answers; "" for none, None where not known.
        score: What the uncertainty is. With a proposer always "support", the lack of it; else an estimator's name, such
            as "vote_share". "coe" where it is not given, as in files of former versions.
        estimator: What computes the score where it is no built-in one. It is code, so no file has it.
    """

    risk: float
    confidence: float
    threshold: float | None
    n_questions: int
    n_answered: int
    n_wrong: int
    bound: float | None
    agents: Mapping[str, CalibratedAgent]
    clusterer: str
    correctness: str
    date: str
    uncertainties: tuple[float, ...]
    trust: Mapping[str, float] | None = None
    trust_from: Literal["agreement", "learned"] | None = None
    learned_support: LearnedSupport | None = None
    n_ties: int = 0
    fit: Literal["whole", "halves"] | None = None
    proposer: str | None = None
    tools: Mapping[str, GroupThreshold] = field(default_factory=dict)
    no_call: GroupThreshold | None = None
    weights: Mapping[str, float] | None = None
    prompt: str | None = None
    answers: str | None = None
    score: str = ""
    clusterer_options: JsonObject | None = None
    estimator: Estimator | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_risk(self.risk, self.confidence)
        for name in ("clusterer", "correctness", "date", "score"):
            instance(getattr(self, name), str, f'"{name}"', what="a string", advice=_REMEDY)
        for name in ("proposer", "prompt", "answers"):
            text = getattr(self, name)
            must = f'"{name}" must be a string or null'
            _require(text is None or isinstance(text, str), must, text)
        options = self.clusterer_options
        must = '"clusterer_options" must be an object or null'
        _require(options is None or isinstance(options, dict), must, options)
        if not self.score:
            usual = "coe" if self.proposer is None else SUPPORT
            object.__setattr__(self, "score", usual)
        for group in self.groups:
            _check_group(group, least=self.least)
        integer(self.n_ties, '"n_ties"', least=0, advice=_REMEDY)
        must = '"uncertainties" must be a list of finite numbers'
        _require(are_finite(self.uncertainties), must, self.uncertainties)
        one_of(self.fit, '"fit"', ("whole", "halves", None), advice=_REMEDY)
        one_of(self.trust_from, '"trust_from"', ("agreement", "learned", None), advice=_REMEDY)
        self._check_parts()
        for weights in (self.weights, self.trust):
            if weights is not None:
                check_weights(weights)

    def _check_parts(self) -> None:
        """Raises where parts do not belong together."""
        judges_proposals = self.proposer is not None
        must = 'a learned support, "tools" and "no_call" belong to a "proposer"'
        if self.learned_support is not None:
            _require(self.learned_support.proposer == self.proposer, must, self.proposer)
        if self.tools or self.no_call:
            _require(judges_proposals, must, self.proposer)
        must = '"score" must be "support" with a proposer, and only then'
        _require((self.score == SUPPORT) == judges_proposals, must, self.score)
        must = '"trust" must go with one of ' + ", ".join(VOTE_SHARES)
        _require(self.trust is None or self.score in VOTE_SHARES, must, self.score)
        must = '"trust" must be there with "trusted_vote_share"'
        _require(self.trust is not None or self.score != TRUSTED_VOTE_SHARE, must, self.trust)

    @property
    def groups(self) -> list["GroupThreshold | Calibration"]:
        """What has a threshold: all questions or all other proposals, each of `tools`, and `no_call`."""
        groups: list[GroupThreshold | Calibration] = [self, *self.tools.values()]
        if self.no_call is not None:
            groups.append(self.no_call)
        return groups

    @property
    def least(self) -> float | None:
        """The lowest value that the uncertainty may have: 0, or none where it is an estimator of your own."""
        return None if self.is_of_own else 0.0

    @property
    def is_of_own(self) -> bool:
        """Whether the uncertainty is an estimator of your own."""
        return self.score not in (*RUN_TIME_SCORES, *VOTE_SHARES, SUPPORT)

    @property
    def chooses_answer(self) -> bool:
        """Whether the score chooses the answer, by trust or by confidence, and not the ensemble mean alone."""
        if self.score == VOTE_SHARE:
            return self.trust is not None
        return self.score == CONFIDENCE_VOTE_SHARE

    def uncertainty(self, measurement: Measurement) -> float:
        """Returns what the threshold is compared with; higher = less sure. Values within 1e-9 are equal.

        It is infinite where an estimator cannot be computed. A `KeyError` is raised where an agent's proposal is judged
        and the measurement has no support of it.
        """
        if self.learned_support is not None:
            return self.learned_support.uncertainty(measurement)
        judged = self.proposer_of(measurement)
        if judged is not None:
            return 1.0 - measurement.proposals.support[judged]
        if self.chooses_answer:
            votes = weighted_votes(measurement, self.trust, score=self.score)
            return float(1.0 - votes.max())
        if self.trust is not None:
            leading = [measurement.representatives.index(text) for text in measurement.tied]
            if not leading:
                leading = [leading_cluster(measurement)]
            votes = weighted_votes(measurement, self.trust)
            return float(1.0 - votes[leading].mean())

        if not self.is_of_own or self.score in measurement.run.scores:
            value = score_of(measurement, self.score)
        else:
            value = compute_score(measurement, self.score, self.known_estimator)
        return math.inf if value is None else value

    @property
    def known_estimator(self) -> Estimator:
        """The estimator of your own; a ValueError where it is not known."""
        if self.estimator is None:
            must = "a policy must be given the estimator of a score of your own, since a file names no code"
            raise ValueError(f"{must}; got none for {for_prompt(self.score, limit=80)!r}. {_GIVE}")
        return self.estimator

    def limit_in_words(self, threshold: float, uncertainty: float | None = None) -> str:
        """Returns a threshold in words, next to an uncertainty that is compared with it if one is given.

        Vote shares and support are shown themselves, not what they lack to 1.
        """
        name = self._score_in_words()
        is_share = self.score in _SHARES and self.learned_support is None
        within = "at least" if is_share else "at most"
        limit = _share(threshold) if is_share else threshold
        if uncertainty is None:
            return f"{name} is {within} {limit:.3f}"

        value = _share(uncertainty) if is_share else uncertainty
        is_within = uncertainty <= threshold + TIE
        beyond = "below" if is_share else "above"
        relation = within if is_within else beyond
        return f"{name} {beside(value, limit)} is {relation} the calibrated {beside(limit, value)}"

    def _score_in_words(self) -> str:
        if self.learned_support is not None:
            return "learned probability of error"
        if self.score == VOTE_SHARE and self.trust is not None:
            return "weighted vote share"
        if self.score == "coe":
            return "CoE"
        return _SHARES.get(self.score) or for_prompt(self.score, limit=80)

    def statements(self) -> list[str]:
        """Returns what is answered, and what that is shown to risk: a line for each threshold."""
        confidence = f"confidence {self.confidence:g}"
        questions = quantity(self.n_questions, "question")
        if self.proposer is not None:
            return self._statements_on_proposals(confidence)
        if self.threshold is None:
            risk = f"{self.risk:g}"
            return [
                f"No threshold is shown to keep a risk of {risk} with {confidence} on {questions}."
            ]
        limit = self.limit_in_words(self.threshold)
        return [f"Answer where {limit}: {_counts_in_words(self, questions)} with {confidence})."]

    def _statements_on_proposals(self, confidence: str) -> list[str]:
        """Returns one on each kind: of each tool with enough samples, the others, and no call."""
        groups: list[tuple[str, Calibration | GroupThreshold]] = []
        for name, threshold in sorted(self.tools.items()):
            groups.append((f'Calls of "{name}"', threshold))
        if self.n_questions:
            others = "Proposals"
            if self.tools:
                others = "Calls of all other tools"
            elif self.no_call:
                others = "Calls"
            groups.append((others, self))
        if self.no_call:
            groups.append(("Proposals that call nothing", self.no_call))

        lines = []
        for kind, group in groups:
            if group.threshold is None:
                risk = f"no threshold keeps a risk of {self.risk:g} with {confidence}"
                lines.append(f"{kind}: {risk} on {group.n_questions} of them; none passes.")
            else:
                limit = self.limit_in_words(group.threshold)
                counts = _counts_in_words(group, str(group.n_questions))
                lines.append(f"{kind} pass where {limit}: {counts} with {confidence}).")
        if len(groups) > 1:
            lines.append(
                f"Each of these {len(groups)} statements holds with {confidence} by itself."
            )
        return lines

    def remarks(self) -> list[str]:
        """Returns how answers were judged, with which weights, and which questions are never answered."""
        lines = []
        if self.correctness:
            lines.append(f"Right by {self.correctness}; clusters by {self.clusterer}.")
        if self.trust is not None:
            shares = [f"{name} {weight:.2f}" for name, weight in sorted(self.trust.items())]
            what = "The answer is chosen" if self.chooses_answer else "The score is computed"
            lines.append(f"{what} with these weights: {', '.join(shares)}.")
        if self.fit == "whole" and self.threshold is not None:
            lines.append(
                "The bound is empirical: the questions that chose the threshold also gave the weights. For a "
                "guarantee, calibrate with halves=True (--halves)."
            )
        if self.n_ties:
            lines.append(f"Questions with a tied lead, which are never answered: {self.n_ties}.")
        return lines

    def find_lacking(self, measurement: Measurement) -> list[str]:
        """Returns the agents that learned support needs and that were not measured, in sorted order."""
        if self.learned_support is None:
            return []
        return sorted(set(self.learned_support.agents) - measurement.agents.keys())

    def proposer_of(self, measurement: Measurement) -> str | None:
        """Returns the agent whose proposal is judged: the proposer that the measurement names, else `proposer`.

        So the driver of a council, which has a name of its own there, is judged as the agent of the calibration.
        """
        named = measurement.proposals.proposer
        if self.proposer is None or named is None:
            return self.proposer
        return named

    def group_of(self, measurement: Measurement) -> tuple[str, ...] | None:
        """Returns the tools that the judged proposal calls, each once; () for none, None of texts."""
        judged = self.proposer_of(measurement)
        if judged is None or measurement.proposals.calls is None:
            return None
        names = called_tools(measurement.proposals.by_agent[judged])
        return None if names is None else tuple(names)

    def threshold_of(self, measurement: Measurement) -> float | None:
        """Returns the threshold of the judged proposal: of its tool or of calling nothing, else the common threshold.

        Of a proposal that calls several tools it is the lowest of the tools' thresholds and the common one.
        """
        names = self.group_of(measurement)
        if names is None:
            return self.threshold
        if not names:
            return None if self.no_call is None else self.no_call.threshold

        groups: list[GroupThreshold | Calibration] = []
        for name in names:
            groups.append(self.tools.get(name, self))
        if len(groups) > 1:
            groups.append(self)

        thresholds: list[float] = []
        for group in groups:
            if group.threshold is None:
                return None
            thresholds.append(group.threshold)
        return min(thresholds)

    def choose_cluster(self, measurement: Measurement) -> int | None:
        """Returns the index in `representatives` of the cluster to answer with; None on a tie.

        Where an agent's proposal is judged, that is its cluster, whatever leads. Trust in the agents, or how sure they
        are, chooses the cluster of the highest score, which may break a tie of the ensemble mean; else it is the
        leading cluster.
        """
        judged = self.proposer_of(measurement)
        if judged is not None:
            return measurement.representatives.index(measurement.proposals.by_agent[judged])
        if self.chooses_answer:
            votes = weighted_votes(measurement, self.trust, score=self.score)
            leaders = find_leaders(votes)
            return leaders[0] if len(leaders) == 1 else None
        return None if measurement.tied else leading_cluster(measurement)

    def answer(self, measurement: Measurement) -> str | None:
        """Returns the text to answer with where the uncertainty allows it; None on a tie."""
        chosen = self.choose_cluster(measurement)
        if chosen is None:
            return None
        if chosen == leading_cluster(measurement):
            return measurement.answer
        return measurement.representatives[chosen]

    def can_answer(self, measurement: Measurement) -> bool:
        """Whether there is a chosen answer that is neither a refusal nor empty."""
        answer = self.answer(measurement)
        if answer is None:
            return False
        if self.group_of(measurement) is not None:
            return True  # to call nothing may be right, whatever is said instead
        if answer == measurement.answer:
            return measurement.answer_kind in ANSWERABLE
        return answer_kind(answer) in ANSWERABLE


class CalibratedPolicy:
    """Answers where the uncertainty is at most the calibrated threshold, and does `otherwise` elsewhere.

    The guarantee: for new questions of the same kind, asked of the same agents with the same sampling and clustering,
    the share of wrong answers among those given is at most `calibration.risk`, with a probability of at least
    `calibration.confidence` over the choice of the calibration questions. Where weights or support were fitted on the
    same questions (`calibration.fit` is "whole"), this was observed on real data but is not proved: see
    `coe_agents.evaluation.calibrate`. It does not hold for a group that differs from the calibrated one: each decision
    then warns, and its reason claims no risk. The policy does not answer if no threshold keeps the risk, or on a tie
    that neither weights nor confidences break.

    Args:
        calibration: From `coe_agents.evaluation.calibrate`, or `load`.
        otherwise: "abstain", "escalate" or "another_round".
    """

    @refuses_removed
    def __init__(self, calibration: Calibration, *, otherwise: Otherwise = "abstain") -> None:
        self.calibration = calibration
        advice = "To answer more, calibrate at a higher risk"
        self.otherwise = check_otherwise(otherwise, policy="CalibratedPolicy", instead=advice)
        self._differences: tuple[str, ...] | None = None

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        estimator: Estimator | None = None,
        otherwise: Otherwise = "abstain",
    ) -> "CalibratedPolicy":
        """Reads what `save` wrote. The file names no code: a score of your own needs its `estimator`.

        Raises:
            ConfigurationError: The file cannot be read, or holds something else; its score is your own, and no
                estimator is given; or one is given for a built-in score.
            ValueError: The estimator is not callable.
        """
        hint = '"coe-agents calibrate SAMPLES... --out FILE" writes one'
        build = partial(_from_json, is_known=estimator is not None)
        calibration = load_saved(path, build, what="policy", form=_FORMAT, hint=hint)
        if estimator is not None:
            checked = check_estimator(calibration.score, estimator)
            calibration = replace(calibration, estimator=checked)
        named = f'the score of the policy {path}, "{for_prompt(calibration.score, limit=80)}",'
        if calibration.is_of_own and estimator is None:
            raise ConfigurationError(
                f"{named} is computed by code of yours, which a file does not name", hint=_GIVE
            )
        if estimator is not None and not calibration.is_of_own:
            raise ConfigurationError(f"{named} is a built-in one", hint="Omit the estimator")
        return cls(calibration, otherwise=otherwise)

    def save(self, path: str | Path) -> None:
        """Writes the calibration as JSON, in one step: a graph may read the file at any time."""
        record = {"format": _FORMAT, **asdict(replace(self.calibration, estimator=None))}
        del record["estimator"]  # code
        # on one line, since they are many; the rest is to be read
        uncertainties = json.dumps(record.pop("uncertainties"))
        head = json.dumps(record, indent=1).removesuffix("\n}")
        text = f'{head},\n "uncertainties": {uncertainties}\n}}\n'
        write(Path(path), text.encode())

    def of_group(self, differences: Iterable[str]) -> Self:
        """Returns the same policy for a group with these differences: it does not warn, and claims no risk with any."""
        policy = copy.copy(self)
        policy._differences = tuple(differences)
        return policy

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns "answer" with the chosen cluster's answer, or `otherwise`.

        Warns:
            UnkeptRiskWarning: The agents, or how many responses they gave, differ from the calibration.
        """
        calibration = self.calibration
        refuse = partial(Decision, self.otherwise, None, cause="policy")
        differences = "; ".join(self._differences or self.mismatches(measurement))
        if differences and self._differences is None:
            warnings.warn(UnkeptRiskWarning(differences), stacklevel=2)

        promise = f"at most {calibration.risk:g} with confidence {calibration.confidence:g}"
        claim = f"(risk {promise})"
        if differences:
            claim = f"(for another group: {differences})"
        elif round > 0:
            claim = f"(calibrated without further rounds, for a risk of {promise})"

        proposer = calibration.proposer_of(measurement)
        if proposer is not None and proposer not in measurement.proposals.support:
            return refuse(f"no other agent's proposal can be compared with that of {proposer}")
        if proposer != calibration.proposer and proposer in calibration.agents:
            return refuse(
                f"calibrated for the proposals of {calibration.proposer}, not for those of {proposer}"
            )
        threshold = calibration.threshold_of(measurement)
        if threshold is None:
            tools = calibration.group_of(measurement)
            what = "" if tools is None else f" for {' and '.join(tools) or 'calling nothing'}"
            questions = quantity(calibration.n_questions, "calibration question")
            return refuse(f"no threshold{what} kept the risk {promise} on {questions}")
        if lacking := calibration.find_lacking(measurement):
            return refuse(
                f"the learned support needs all its agents; {', '.join(lacking)} gave no response"
            )
        answer = calibration.answer(measurement)
        uncertainty = calibration.uncertainty(measurement)
        if answer is None:
            tied = f": {', '.join(map(repr, measurement.tied))}" if measurement.tied else ""
            return refuse(f"the leading answers tie{tied}", cause="tie")
        if not math.isfinite(uncertainty):
            score = for_prompt(calibration.score, limit=80)
            return refuse(f"the score {score} cannot be computed of these responses")
        reason = f"{calibration.limit_in_words(threshold, uncertainty)} {claim}"
        is_within = uncertainty <= threshold + TIE
        if not is_within:
            return refuse(reason, cause="uncertain")

        is_no_plain_lead = bool(measurement.tied) or answer != measurement.answer
        if proposer is None and is_no_plain_lead:
            what = "confidences" if calibration.trust is None else "weights"
            reason = f'the agents\' {what} favour "{for_prompt(answer, limit=80)}"; {reason}'
        is_trusted = proposer is not None or calibration.chooses_answer
        return Decision("answer", answer, reason, trusted_answer=is_trusted, cause="confident")

    def mismatches(self, measurement: Measurement) -> list[str]:
        """Returns how the measured agents differ from the calibrated agents, one sentence per difference."""
        calibrated = self.calibration.agents
        proposer = self.calibration.proposer
        judged = self.calibration.proposer_of(measurement)

        # a council's driver has another name than the agent of the calibration in whose place it is
        calibrated_name = {name: name for name in measurement.agents}
        if judged is not None and judged not in calibrated and proposer is not None:
            calibrated_name[judged] = proposer
        measured = {calibrated_name[name]: agent for name, agent in measurement.agents.items()}

        sentences = []
        for name in sorted(calibrated.keys() - measured.keys()):
            sentences.append(f"{name} is missing")
        for name in sorted(measured.keys() - calibrated.keys()):
            sentences.append(f"{name} is new")
        for name, then in calibrated.items():
            if name in measured:
                sentences += _mismatches_of(name, measured[name], then)

        weights = self.calibration.weights
        weight_of: dict[str, float] = {}
        for name in measurement.agents:
            weight_of[name] = 1.0
            if weights is not None:
                weight_of[name] = weights.get(calibrated_name[name], 1.0)
        if not counts_agents_by(measurement, weight_of):
            if weights is None:
                sentences.append(
                    "the agents have unequal weights, but had equal ones when calibrated"
                )
            else:
                sentences.append("the agents have other weights than when calibrated")
        return sentences

    def __repr__(self) -> str:
        threshold = self.calibration.threshold
        does = "never answers"
        if threshold is not None:
            does = f"answers where {self.calibration.limit_in_words(threshold)}"
        return f"CalibratedPolicy({does}, otherwise={self.otherwise!r})"

    def __str__(self) -> str:
        """Returns what the command `calibrate` prints: what is answered, at which risk, and how it was judged."""
        lines = self.calibration.statements() + self.calibration.remarks()
        return "\n".join(for_screen(line) for line in lines)


def _mismatches_of(name: str, now: AgentMeasurement, then: CalibratedAgent) -> Iterator[str]:
    low = then.min_responses
    high = then.max_responses
    if not low <= now.n_responses <= high:
        span = f"{low}" if low == high else f"{low} to {high}"
        yield f"{name} gave {quantity(now.n_responses, 'response')}, and {span} when calibrated"
    if then.weighting not in ("mixed", now.weighting):
        yield f"{name}'s responses count by {now.weighting}, and by {then.weighting} when calibrated"


def _counts_in_words(of: Calibration | GroupThreshold, questions: str) -> str:
    """Returns how many of some questions are answered, and how many of these were wrong."""
    share = of.n_answered / of.n_questions
    wrong = of.n_wrong / of.n_answered
    answered = f"{of.n_answered} of {questions} ({share:.1%})"
    return f"{answered}, {of.n_wrong} wrong ({wrong:.1%}; at most {of.bound:.1%}"


def _share(uncertainty: float) -> float:
    """Returns the share that lacks so much to 1."""
    return max(0.0, 1.0 - uncertainty)


def _check_group(group: GroupThreshold | Calibration, *, least: float | None) -> None:
    if group.threshold is not None:
        number(group.threshold, '"threshold"', least=least, advice=_REMEDY)
    if group.bound is not None:
        share(group.bound, '"bound"', advice=_REMEDY)
    for name in ("n_questions", "n_answered", "n_wrong"):
        integer(getattr(group, name), f'"{name}"', least=0, advice=_REMEDY)
    counts = [group.n_wrong, group.n_answered, group.n_questions]
    must = '"n_wrong" must be at most "n_answered", and that at most "n_questions"'
    _require(counts == sorted(counts), must, counts)


def counts_agents_by(measurement: Measurement, weights: Mapping[str, float]) -> bool:
    """Returns whether the support is the mean of the agents' distributions by these weights, which name them all."""
    agents = measurement.agents.items()
    total = sum(weights[name] for name, _ in agents)
    if not total > 0.0:
        return False
    for text, support in zip(measurement.representatives, measurement.support, strict=True):
        weighted = [weights[name] * agent.distribution.get(text, 0.0) for name, agent in agents]
        mean = sum(weighted) / total
        if not abs(support - mean) < 1e-6:
            return False
    return True


def _check_consistent(calibration: Calibration) -> None:
    """Raises where numbers, each fine by itself, do not belong to one calibration."""
    uncertainties = calibration.uncertainties
    is_rising = all(a <= b for a, b in pairwise(uncertainties))
    _require(is_rising, '"uncertainties" must rise', uncertainties[:5])
    lowest = min(uncertainties, default=0)
    number(lowest, 'each of "uncertainties"', least=calibration.least, advice=_REMEDY)
    threshold = calibration.threshold
    if threshold is not None:
        must = '"threshold" must be at most the highest of "uncertainties"'
        _require(threshold <= max(uncertainties, default=-math.inf) + TIE, must, threshold)
    n_questions = 0
    for group in calibration.groups:
        n_questions += group.n_questions
        has_both_or_none = (group.threshold is None) == (group.bound is None)
        _require(has_both_or_none, '"bound" belongs to a "threshold"', group.bound)
    must = '"n_ties" must be at most "n_questions"'
    _require(calibration.n_ties <= n_questions, must, calibration.n_ties)

    names = list(calibration.trust or ())
    if calibration.learned_support is not None:
        names = list(calibration.learned_support.agents)
    distinct = set(names)
    is_of_agents = len(distinct) == len(names) and distinct <= calibration.agents.keys()
    must = "weights and learned support must be of agents of the policy, each once"
    _require(is_of_agents, must, names)


def _from_json(record: dict[str, Any], *, is_known: bool) -> Calibration:
    """Returns the calibration of a record; `is_known`: whether an estimator of its score was given."""
    if "estimator" in record:
        raise ValueError('"estimator" is code, which a file does not hold')
    del record["format"]
    _refuse_removed(record)
    divergence = record.pop("divergence", "kl")
    _require(divergence == "kl", '"divergence" must be "kl", the only one that is left', divergence)
    agents = record.pop("agents")
    tools = record.pop("tools", {})
    support = record.pop("learned_support", None)
    no_call = record.pop("no_call", None)
    calibration = Calibration(
        **with_tuples(record),
        agents={name: CalibratedAgent(**agent) for name, agent in agents.items()},
        learned_support=None if support is None else _support_from_json(support),
        tools={name: GroupThreshold(**group) for name, group in tools.items()},
        no_call=None if no_call is None else GroupThreshold(**no_call),
    )
    _check_consistent(calibration)
    if calibration.is_of_own and not is_known and not is_reference(calibration.score):
        # raises: a misspelt name, or that of an entry point
        find_score(calibration.score, further=[TRUSTED_VOTE_SHARE])
    return calibration


def _refuse_removed(record: dict[str, Any]) -> None:
    """Refuses a learned gate of a former version, which policies without one also name as null."""
    if record.pop("gate", None) is not None:
        raise ValueError(
            'the learned gate is gone. Calibrate again with --weights learned, which replaces "--score learned"'
        )


def _support_from_json(record: dict[str, Any]) -> LearnedSupport:
    fields = with_tuples(record)
    must = '"agents" of a learned support must be a list of names'
    _require(isinstance(fields["agents"], tuple), must, record["agents"])
    return LearnedSupport(**fields)
