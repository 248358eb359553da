"""Owns `Claims`: from the responses of a group to the draft that is given, and what becomes of each of its claims."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from coe_agents.policy.measurement import DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD
from coe_agents.text import quantity
from coe_agents.types import Response
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
        >>> said = {"a": "Ada wrote programs. She lived in London.", "b": "Ada lived in London. She died in Rome."}
        >>> found = Claims().decide([[create_response(name, text) for name, text in said.items()]])[0]
        >>> found["answer"], [claim["action"] for claim in found["claims"]]
        ('[...] She lived in London.', ['drop', 'keep'])
    """

    def __init__(
        self,
        splitter: Splitter | None = None,
        support: Support | EntailmentModel | None = None,
        policy: ClaimPolicy | None = None,
        *,
        max_pairs: int = 20_000,
    ) -> None:
        self.splitter: Splitter = Sentences() if splitter is None else splitter
        judge = Overlap() if support is None else support
        self.support: Support = EntailedBy(judge) if isinstance(judge, EntailmentModel) else judge
        self.policy = ClaimPolicy() if policy is None else policy
        has_method(
            self.splitter, "split", '"splitter" of Claims', advice="Pass Sentences(), for example"
        )
        has_method(
            self.support,
            "judge",
            '"support" of Claims',
            advice="Pass Overlap() or an entailment model",
        )
        instance(
            self.policy,
            ClaimPolicy,
            '"policy" of Claims',
            what="a ClaimPolicy",
            advice="Pass ClaimPolicy()",
        )
        self.max_pairs = integer(max_pairs, '"max_pairs"', least=1, advice="Omit it for 20,000")
        known, name = self.policy.calibration, type(self.support).__name__
        if known is not None and known.support != name:
            raise ValueError(
                f'"policy" was calibrated with the support {known.support}; got {name}. Calibrate again'
            )

    def decide(
        self, questions: Sequence[Sequence[Response]], *, weights: Mapping[str, float] | None = None
    ) -> list[ClaimedAnswer]:
        """Returns what is given of the responses to each question.

        All questions share one call of the splitter and one of the support, so that requests can be joined.

        Args:
            questions: The responses to each question, without failures.
            weights: Of the agents by name, 1 where one is not named. One of weight 0 gives no draft and no support.

        Raises:
            CoEError: If the model behind the support fails.
        """
        trusted = {} if weights is None else weights
        drafts = [_drafts(responses, trusted) for responses in questions]
        pairs = zip(questions, drafts, strict=True)
        texts = list(
            dict.fromkeys(_text(responses[place]) for responses, of in pairs for place in of)
        )
        claims = dict(zip(texts, self.splitter.split(texts) if texts else (), strict=True))
        plans = [
            self._plan(responses, of, claims)
            for responses, of in zip(questions, drafts, strict=True)
        ]
        asked = [plan.asked for plan in plans if isinstance(plan, _Plan)]
        judged = iter(self.support.judge(asked) if asked else ())
        return [
            self._decide(responses, plan, next(judged), trusted)
            if isinstance(plan, _Plan)
            else ClaimedAnswer(answer=None, claims=[], reason=plan)
            for responses, plan in zip(questions, plans, strict=True)
        ]

    def _plan(
        self,
        responses: Sequence[Response],
        drafts: Sequence[int],
        claims: Mapping[str, Sequence[Claim] | Exception],
    ) -> "_Plan | str":
        """Returns what is judged of a question, or why nothing is."""
        found, problems = dict[int, Sequence[Claim]](), list[str]()
        for place in drafts:
            name = responses[place]["agent"]
            text = _text(responses[place])
            said = claims[text]
            if isinstance(said, Exception):
                problems.append(f"{name}: {said}")
            elif (problem := _problem(said, text)) is not None:
                problems.append(f"{name}: {problem}")
            elif said:
                found[place] = said
        if not found:
            return "; ".join(["no draft has claims that could be judged", *problems])
        asked = Asked(
            [claim.text for of in found.values() for claim in of],
            [each["text"] for each in responses],
        )
        n_pairs = len(asked.claims) * len(asked.texts)
        if n_pairs > self.max_pairs:
            claims_in_words, texts = (
                quantity(len(asked.claims), "claim"),
                quantity(len(asked.texts), "response"),
            )
            return f"{claims_in_words} and {texts} are {n_pairs} pairs to judge, more than {self.max_pairs}"
        return _Plan(found, asked)

    def _decide(
        self,
        responses: Sequence[Response],
        plan: "_Plan",
        judged: NDArray[np.floating[Any]],
        weights: Mapping[str, float],
    ) -> ClaimedAnswer:
        names = [each["agent"] for each in responses]
        trust = [weights.get(name, 1.0) for name in names]
        measured, first = dict[int, MeasuredClaims](), 0
        for place, of in plan.drafts.items():
            rows = judged[first : first + len(of)]
            measured[place] = measure_claims(
                rows, names, drafted_by=names[place], draft=place, weights=trust
            )
            first += len(of)

        actions_of = {
            place: self.policy.actions(found.between) for place, found in measured.items()
        }

        def rank(place: int) -> tuple[int, int, float, str, str]:  # never by the order of agents
            given = list(zip(plan.drafts[place], actions_of[place], strict=True))
            n_kept = _n_words(claim.text for claim, action in given if action == "keep")
            n_given = _n_words(claim.text for claim, action in given if action != "drop")
            mean = float(measured[place].between.mean())
            support = 0.0 if math.isnan(mean) else round(mean, 9)
            return (-n_kept, -n_given, -support, _text(responses[place]), names[place])

        chosen = min(plan.drafts, key=rank)
        of, found, text = plan.drafts[chosen], measured[chosen], _text(responses[chosen])
        actions = actions_of[chosen]
        data = [
            _data(claim, n, found, action)
            for n, (claim, action) in enumerate(zip(of, actions, strict=True))
        ]
        n_left = actions.count("drop")
        given = f"{len(of) - n_left} of {quantity(len(of), 'claim')} of {names[chosen]}'s draft"
        if n_left == len(of):
            others = {name for name, weight in zip(names, trust, strict=True) if weight > 0} - {
                names[chosen]
            }
            why = (
                "the other models support none of them enough"
                if others
                else "no other model answered"
            )
            return ClaimedAnswer(answer=None, claims=data, reason=f"{given} are given: {why}")
        marked = f", {actions.count('mark')} of them marked" if "mark" in actions else ""
        left = f"; {n_left} left out for too little support by the other models" if n_left else ""
        answer = compose(
            text, [(each.start, each.end) for each in of], [each.text for each in of], actions
        )
        return ClaimedAnswer(answer=answer, claims=data, reason=f"{given} are given{marked}{left}")


class _Plan(NamedTuple):
    drafts: Mapping[int, Sequence[Claim]]
    """The claims of each draft, by the place of the response."""
    asked: Asked


def _drafts(responses: Sequence[Response], weights: Mapping[str, float]) -> list[int]:
    """Returns the place of each trusted agent's first response, unless it gives no answer."""
    first: dict[str, int] = {}
    for place, each in enumerate(responses):
        known = first.setdefault(each["agent"], place)
        if (each["round"], each["index"]) < (responses[known]["round"], responses[known]["index"]):
            first[each["agent"]] = place
    trusted = (place for name, place in first.items() if weights.get(name, 1.0) > 0.0)
    return [place for place in trusted if answer_kind(responses[place]["text"]) == "answer"]


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
    return len(frozenset[str]().union(*map(words, claims)))


def _text(response: Response) -> str:
    return strip_reasoning(response["text"])


def _data(claim: Claim, number: int, found: MeasuredClaims, action: ClaimAction) -> ClaimData:
    coe, aleatoric, epistemic = (
        _plain(each[number]) for each in (found.coe, found.aleatoric, found.epistemic)
    )
    named = None
    if aleatoric is not None and epistemic is not None:
        limits = DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD
        named = regime(
            aleatoric, epistemic, aleatoric_threshold=limits[0], epistemic_threshold=limits[1]
        )
    shares = dict(zip(found.agents, found.shares[number].tolist(), strict=True))
    return ClaimData(
        text=claim.text,
        start=claim.start,
        end=claim.end,
        support_within=_plain(found.within[number]),
        support_between=_plain(found.between[number]),
        coe=coe,
        aleatoric=aleatoric,
        epistemic=epistemic,
        regime=named,
        agents={
            name: {"supports": yes, "contradicts": no, "silent": max(0.0, 1.0 - yes - no)}
            for name, (yes, no) in shares.items()
        },
        action=action,
    )


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
