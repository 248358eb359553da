"""Owns `Claims`: from the responses of a group to the draft that is given, and what becomes of each of its claims."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coe_agents._removed import refuses_removed
from coe_agents.checks import has_method, instance, integer
from coe_agents.claims.measure import MeasuredClaims, measure_claims
from coe_agents.claims.policy import ClaimPolicy, compose
from coe_agents.claims.splitting import Claim, Sentences, Splitter
from coe_agents.claims.support import Asked, EntailedBy, Overlap, Support
from coe_agents.claims.wording import words
from coe_agents.clustering.answers import strip_reasoning
from coe_agents.clustering.protocols import EntailmentModel
from coe_agents.clustering.refusals import answer_kind
from coe_agents.decision.data import ClaimAction, ClaimData, ClaimedAnswer
from coe_agents.text import quantity
from coe_agents.types import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    Response,
    Weights,
)
from coe_agents.uncertainty import regime


class Claims:
    """How long answers are judged, claim by claim; for `create_coe_graph(..., answer_judge=Claims())`.

    Each agent's first response is a draft. The claims of all drafts are judged against all responses, and each is kept,
    marked or dropped by `policy`. The draft is given whose kept claims have the most content: distinct words, so that
    neither a short draft nor one that repeats itself wins. What is given is what these claims cover, see
    `coe_agents.claims.policy.compose`; if all claims of all drafts are dropped, the group abstains.

    Args:
        splitter: From a text to its claims: `Sentences()` by default, or `ChatClaims(model)`.
        support: Who supports a claim: `Overlap()` by default; or an entailment model, `ChatEntailment(model)` among
            them, is shown the best passages of a response (`coe_agents.claims.support.EntailedBy`).
        policy: What becomes of a claim.
        max_pairs: The most pairs of a claim and a response of one question, counted before any is judged; a question
            with more gets no answer.

    Raises:
        TypeError: If a part is of the wrong kind.
        ValueError: If the limit is below 1, or `policy` was calibrated with another support.

    Example:
        >>> from coe_agents.testing import create_response
        >>> texts = {"a": "Ada wrote programs. She lived in London.", "b": "Ada lived in London. She died in Rome."}
        >>> decided = Claims().decide([[create_response(name, text) for name, text in texts.items()]])[0]
        >>> decided["answer"], [claim["action"] for claim in decided["claims"]]
        ('[...] She lived in London.', ['drop', 'keep'])
    """

    @refuses_removed
    def __init__(
        self,
        splitter: Splitter | None = None,
        support: Support | EntailmentModel | None = None,
        policy: ClaimPolicy | None = None,
        *,
        max_pairs: int = 20_000,
    ) -> None:
        self.splitter: Splitter = Sentences() if splitter is None else splitter
        advice = "Pass Sentences(), for example"
        has_method(self.splitter, "split", '"splitter" of Claims', advice=advice)

        if support is None:
            support = Overlap()
        elif isinstance(support, EntailmentModel):
            support = EntailedBy(support)
        advice = "Pass Overlap() or an entailment model"
        has_method(support, "judge", '"support" of Claims', advice=advice)
        self.support: Support = support

        self.policy = ClaimPolicy() if policy is None else policy
        where = '"policy" of Claims'
        what = "a ClaimPolicy"
        instance(self.policy, ClaimPolicy, where, what=what, advice="Pass ClaimPolicy()")
        calibration = self.policy.calibration
        name = type(self.support).__name__
        if calibration is not None and calibration.support != name:
            raise ValueError(
                f'"policy" was calibrated with the support {calibration.support}; got {name}. Calibrate again'
            )
        self.max_pairs = integer(max_pairs, '"max_pairs"', least=1, advice="Omit it for 20,000")

    def decide(
        self, questions: Sequence[Sequence[Response]], *, weights: Mapping[str, float] | None = None
    ) -> list[ClaimedAnswer]:
        """Returns what is given of the responses to each question.

        Args:
            questions: The responses to each question, without failures.
            weights: Of the agents by name, 1 where one is not named. One of weight 0 gives no draft and no support.

        Raises:
            CoEError: If the model behind the support fails.
        """
        return [self._decide(responses, weights or {}) for responses in questions]

    def _decide(self, responses: Sequence[Response], weights: Weights) -> ClaimedAnswer:
        claims_of, problems = self._split(responses, weights)
        if not claims_of:
            return _nothing("; ".join(["no draft has claims that could be judged", *problems]))

        stated = list[str]()
        for claims in claims_of.values():
            stated += [claim.text for claim in claims]
        n_pairs = len(stated) * len(responses)
        if n_pairs > self.max_pairs:
            n_claims = quantity(len(stated), "claim")
            n_texts = quantity(len(responses), "response")
            return _nothing(
                f"{n_claims} and {n_texts} are {n_pairs} pairs to judge, more than {self.max_pairs}"
            )

        texts = [response["text"] for response in responses]
        [judged] = self.support.judge([Asked(stated, texts)])
        drafts = self._measure(responses, claims_of, judged, weights)
        best = min(drafts, key=_Draft.rank)
        others = {response["agent"] for response in responses} - {best.agent}
        has_others = any(weights.get(name, 1.0) > 0 for name in others)
        return best.answer(self.policy, has_others=has_others)

    def _split(
        self, responses: Sequence[Response], weights: Weights
    ) -> tuple[dict[int, Sequence[Claim]], list[str]]:
        """Returns the claims of each draft, by its place, and what is wrong with those that have none."""
        places = _drafts(responses, weights)
        texts = [_text(responses[place]) for place in places]
        found = self.splitter.split(texts) if texts else []

        claims_of = dict[int, Sequence[Claim]]()
        problems = list[str]()
        for place, text, claims in zip(places, texts, found, strict=True):
            name = responses[place]["agent"]
            if isinstance(claims, Exception):
                problems.append(f"{name}: {claims}")
                continue
            problem = _problem(claims, text)
            if problem is not None:
                problems.append(f"{name}: {problem}")
            elif claims:
                claims_of[place] = claims
        return claims_of, problems

    def _measure(
        self,
        responses: Sequence[Response],
        claims_of: Mapping[int, Sequence[Claim]],
        judged: NDArray[np.floating[Any]],
        weights: Weights,
    ) -> list["_Draft"]:
        """Returns the drafts with what was measured of their claims; `judged` has those of one behind the other."""
        names = [response["agent"] for response in responses]
        drafts = list[_Draft]()
        start = 0
        for place, claims in claims_of.items():
            stop = start + len(claims)
            measured = measure_claims(judged[start:stop], names, draft=place, weights=weights)
            actions = self.policy.actions(measured.between)
            text = _text(responses[place])
            drafts.append(_Draft(names[place], text, claims, measured, actions))
            start = stop
        return drafts


def _nothing(reason: str) -> ClaimedAnswer:
    return ClaimedAnswer(answer=None, claims=[], reason=reason)


class _Draft(NamedTuple):
    """A response whose claims were measured, and what becomes of each."""

    agent: str
    text: str
    claims: Sequence[Claim]
    measured: MeasuredClaims
    actions: Sequence[ClaimAction]

    def rank(self) -> tuple[int, int, float, str, str]:
        """Returns by what the best draft is the lowest, never the order of agents."""
        kept = list[str]()
        given = list[str]()
        for claim, action in zip(self.claims, self.actions, strict=True):
            if action == "keep":
                kept.append(claim.text)
            if action != "drop":
                given.append(claim.text)
        # rounded, so that the order in which supports are summed up decides no tie
        mean = float(self.measured.between.mean())
        support = 0.0 if math.isnan(mean) else round(mean, 9)
        return -_n_words(kept), -_n_words(given), -support, self.text, self.agent

    def answer(self, policy: ClaimPolicy, *, has_others: bool) -> ClaimedAnswer:
        """Returns what is given of the draft, and why; `has_others`: whether another model counts."""
        too_little = f"by the other models is below {policy.least_support:.0%}"
        data = list[ClaimData]()
        for number, claim in enumerate(self.claims):
            data.append(_data(claim, number, self.measured, self.actions[number]))
        n_claims = len(self.claims)
        n_dropped = self.actions.count("drop")
        reason = f"{n_claims - n_dropped} of {quantity(n_claims, 'claim')} of {self.agent}'s draft are given"
        if n_dropped == n_claims:
            why = "no other model answered"
            if has_others:
                why = f"the support of each {too_little}"
            return ClaimedAnswer(answer=None, claims=data, reason=f"{reason}: {why}")

        n_marked = self.actions.count("mark")
        if n_marked:
            reason += f", {n_marked} of them marked: support below {policy.min_support:.0%}"
        if n_dropped:
            reason += f"; {n_dropped} left out, whose support {too_little}"

        places = [(claim.start, claim.end) for claim in self.claims]
        texts = [claim.text for claim in self.claims]
        answer = compose(self.text, places, texts, self.actions)
        return ClaimedAnswer(answer=answer, claims=data, reason=reason)


def _drafts(responses: Sequence[Response], weights: Weights) -> list[int]:
    """Returns the place of each trusted agent's first response, unless it gives no answer."""

    def order(place: int) -> tuple[int, int]:
        return responses[place]["round"], responses[place]["index"]

    earliest: dict[str, int] = {}
    for place in sorted(range(len(responses)), key=order):
        earliest.setdefault(responses[place]["agent"], place)

    drafts = list[int]()
    for name, place in earliest.items():
        is_trusted = weights.get(name, 1.0) > 0.0
        if is_trusted and answer_kind(responses[place]["text"]) == "answer":
            drafts.append(place)
    return drafts


def _problem(claims: Sequence[Claim], text: str) -> str | None:
    """Returns what is wrong with the claims of a draft: a splitter may be the user's own."""
    for claim in claims:
        if not claim.text.strip():
            return "the splitter returned a claim without text"
        if not 0 <= claim.start < claim.end <= len(text):
            length = quantity(len(text), "character")
            return f"the splitter returned a claim at {claim.start}:{claim.end} of {length}"
    return None


def _n_words(claims: Iterable[str]) -> int:
    """Returns how many distinct words claims have: to say the same again adds none."""
    distinct = set[str]()
    for claim in claims:
        distinct |= words(claim)
    return len(distinct)


def _text(response: Response) -> str:
    return strip_reasoning(response["text"])


def _data(claim: Claim, number: int, measured: MeasuredClaims, action: ClaimAction) -> ClaimData:
    aleatoric = _plain(measured.aleatoric[number])
    epistemic = _plain(measured.epistemic[number])
    named = None
    if aleatoric is not None and epistemic is not None:
        named = regime(
            aleatoric,
            epistemic,
            aleatoric_threshold=DEFAULT_ALEATORIC_THRESHOLD,
            epistemic_threshold=DEFAULT_EPISTEMIC_THRESHOLD,
        )
    agents = dict[str, dict[str, float]]()
    shares = measured.shares[number].tolist()
    for name, (supports, contradicts) in zip(measured.agents, shares, strict=True):
        silent = max(0.0, 1.0 - supports - contradicts)
        agents[name] = {"supports": supports, "contradicts": contradicts, "silent": silent}

    return ClaimData(
        text=claim.text,
        start=claim.start,
        end=claim.end,
        support_within=_plain(measured.within[number]),
        support_between=_plain(measured.between[number]),
        coe=_plain(measured.coe[number]),
        aleatoric=aleatoric,
        epistemic=epistemic,
        regime=named,
        agents=agents,
        action=action,
    )


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
