"""Owns `GroupDecision`, the decision of a group as a typed value: how it is made and read, its words and its HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from coe_agents import checks
from coe_agents._removed import missing_attribute
from coe_agents.decision.claims import claims_as_html, claims_in_words
from coe_agents.decision.data import (
    AgentData,
    AgentTokens,
    ClaimAction,
    ClaimData,
    ClaimedAnswer,
    DecisionData,
    view,
)
from coe_agents.decision.plots import SHOWN, draw_decision, draw_rounds
from coe_agents.measurement.weighting import rank_texts
from coe_agents.measurement.wording import action_in_words, contested_in_words, is_about_actions
from coe_agents.text import for_page, quantity, visible
from coe_agents.types import (
    CAUSES,
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    AnswerKind,
    Cause,
    End,
    FinalAction,
    Regime,
    RoundData,
    Sampling,
    Usage,
    add_usages,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

HEADINGS: Mapping[str, str] = {
    "abstain": "No answer",
    "escalate": "Escalated: somebody else must decide",
}

_MAY_BE_ABSENT = ("coordinated_coe", "fields")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """The outcome of one question, typed and read-only; a notebook shows it as HTML.

    Its attributes are the keys of `coe_agents.decision.DecisionData`, which says what each means; those that are
    omitted are as they are where nothing was measured.

    Attributes:
        question: What was asked; None where the result does not say. It is no part of `data`.

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.clustering import NormalizedMatch
        >>> from coe_agents.testing import ScriptedAgent
        >>> agents = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["paris."])]
        >>> graph = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)).compile()
        >>> decision = GroupDecision.from_state(graph.invoke({"question": "Capital of France?"}))
        >>> decision.action, decision.answer, decision.coe
        ('answer', 'Paris', 0.0)
    """

    action: FinalAction
    answer: str | None
    reason: str
    cause: Cause | None = None
    decided_by: str = "group"
    choices: list[str] | None = None
    answers: str | None = None
    answer_end: End | None = None
    answer_kind: AnswerKind | None = None
    calls: list[dict[str, Any]] | None = None
    fields: dict[str, float] | None = None
    contested: dict[str, Any] | None = None
    regime: Regime | None = None
    coe: float | None = None
    aleatoric: float | None = None
    epistemic: float | None = None
    coordinated_coe: float | None = None
    surprisal: float | None = None
    tied: list[str] = field(default_factory=list)
    support: dict[str, float] = field(default_factory=dict)
    n_rounds: int = 1
    failed_agents: dict[str, str] = field(default_factory=dict)
    agents: dict[str, AgentData] = field(default_factory=dict)
    tokens: dict[str, Usage] = field(default_factory=dict)
    trajectory: list[RoundData] = field(default_factory=list)
    conformity: float | None = None
    claims: list[ClaimData] | None = None
    ruling: str | None = None
    question: str | None = None

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name):
            raise missing_attribute(self, name)

    @classmethod
    def from_state(cls, result: Mapping[str, Any]) -> GroupDecision:
        """Returns the decision in the result of a graph of `create_coe_graph`; see `from_data`.

        Raises:
            ValueError: If the result holds no decision, for example because the run waits for a person.
        """
        decision = result.get("decision")
        if not isinstance(decision, Mapping):
            got = ", ".join(sorted(result)) or "none"
            if "__interrupt__" in result:
                got += "; the run waits for a person: resume it first"
            raise ValueError(
                f'"result" must hold a "decision"; got the keys {got}. '
                "Pass what the graph's invoke returned"
            )
        question = None
        for message in result.get("messages") or ():
            if getattr(message, "type", "") == "human":
                question = message.text
        return cls.from_data(decision, question=question)

    @classmethod
    def from_data(
        cls, decision: Mapping[str, Any], *, question: str | None = None
    ) -> GroupDecision:
        """Returns a decision that may come from any graph; keys that it lacks are as where nothing was measured.

        Raises:
            TypeError, ValueError: If it has no action or reason, or something is of the wrong kind.
        """
        known = dict[str, Any]()
        for key, value in view(decision, DecisionData).items():
            if value is not None:
                known[key] = value
        check_decision(known, {"action", "reason", *known})
        return cls(**{"answer": None, **known}, question=question)

    @property
    def data(self) -> DecisionData:
        """The decision as the graph returns it: `coordinated_coe` and `fields` are there only where they are known."""
        known = {}
        for name in DecisionData.__annotations__:
            value = getattr(self, name)
            if value is not None or name not in _MAY_BE_ABSENT:
                known[name] = value
        return cast("DecisionData", known)

    @property
    def is_answer(self) -> bool:
        """Whether the group gave an answer."""
        return self.action == "answer"

    def _read(self, text: str | None) -> str:
        """Returns an answer in words: tool calls as people read them, texts as they are."""
        if is_about_actions(self.data):
            return action_in_words(text or "")
        return str(text)

    @property
    def _title(self) -> str:
        return self._read(self.answer) if self.is_answer else HEADINGS[self.action]

    @property
    def _reasons(self) -> list[str]:
        """The reason, and what the proposals are contested about, as sentences."""
        reasons = [f"{self.reason}."]
        if self.contested:
            reasons.append(contested_in_words(self.contested, n_agents=len(self.agents)))
        return reasons

    def explain(self) -> str:
        """Returns the outcome in plain words: the answer or the refusal first, then why, then who failed."""
        head = f"Answer: {self._title}" if self.is_answer else f"{self._title}."
        lines = [head]
        lines += self._reasons
        lines += claims_in_words(self.claims or ())
        for name, why in self.failed_agents.items():
            lines.append(f"{name} did not answer: {why}")
        return visible("\n".join(lines))

    def plot(
        self,
        *,
        aleatoric_threshold: float = DEFAULT_ALEATORIC_THRESHOLD,
        epistemic_threshold: float = DEFAULT_EPISTEMIC_THRESHOLD,
    ) -> Figure:
        """Draws the answers of each agent next to the plane of the two uncertainties.

        Args:
            aleatoric_threshold: Where to divide the plane; the value of the graph's policy.
            epistemic_threshold: The same for the epistemic part.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        thresholds = {
            "aleatoric_threshold": aleatoric_threshold,
            "epistemic_threshold": epistemic_threshold,
        }
        return draw_decision(self, self._title, **thresholds)

    def to_frame(self) -> DataFrame:
        """Returns the trajectory as a table for pandas: a row for each agent in each round.

        The columns are "question", "round" (from 0), "strategy", "agent", its leading "answer" and its semantic
        "entropy" in nats, whether it "flipped" since the round before and "adopted" what led in it; and, of the
        group, its "coe", "aleatoric" and "epistemic" part, "regime" and "group_answer". What a round cost is in
        `trajectory`, since it is known of all agents together.

        Raises:
            ImportError: If pandas is not installed.

        Example:
            >>> from coe_agents import ask
            >>> from coe_agents.testing import ScriptedAgent
            >>> frame = ask("?", [ScriptedAgent("a", ["x"]), ScriptedAgent("b", ["x"])]).to_frame()
            >>> frame[["agent", "answer", "entropy"]].values.tolist()
            [['a', 'x', 0.0], ['b', 'x', 0.0]]
        """
        try:
            from pandas import DataFrame
        except ModuleNotFoundError as error:
            raise ImportError("to_frame needs pandas; pip install 'coe-agents[plots]'") from error
        rows = []
        for data in self.trajectory:
            entropies = data.get("entropies", {})
            for agent, answer in data["leading"].items():
                row = {
                    "question": self.question,
                    "round": data["round"],
                    "strategy": data["strategy"],
                    "agent": agent,
                    "answer": answer,
                    "entropy": entropies.get(agent),
                    "flipped": data["flips"].get(agent),
                    "adopted": data["adopted"].get(agent),
                    "coe": data["coe"],
                    "aleatoric": data["aleatoric"],
                    "epistemic": data["epistemic"],
                    "regime": data["regime"],
                    "group_answer": data["answer"],
                }
                rows.append(row)
        return DataFrame(rows)

    def plot_rounds(self) -> Figure:
        """Draws each agent's entropy, and CoE with its parts, round by round.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        return draw_rounds(self)

    def _repr_html_(self) -> str:
        colour = "#1a7f37" if self.is_answer else "#9a6700"
        limit = None if self.claims else 300
        title = for_page(self._title, limit)
        reasons = " ".join(for_page(reason) for reason in self._reasons)
        rows = "".join(self._html_rows())

        parts = [
            f'<div style="font-family:sans-serif;max-width:62em;border-left:4px solid {colour};padding-left:.8em">'
        ]
        if self.question:
            parts.append(f'<div style="opacity:.7">{for_page(self.question)}</div>')
        parts.append(f'<div style="font-size:1.2em;font-weight:600;color:{colour}">{title}</div>')
        parts.append(f'<div style="margin:.2em 0 .6em">{reasons}</div>')
        if self.claims:
            parts.append(f'<div style="margin-bottom:.6em">{claims_as_html(self.claims)}</div>')
        parts.append('<div style="display:flex;flex-wrap:wrap;gap:1.2em;align-items:flex-start">')
        parts.append(f'<table style="border-collapse:collapse">{rows}</table>')
        parts.append("</div></div>")
        return "".join(parts)

    def _html_rows(self) -> Iterable[str]:
        for name, said in self.agents.items():
            ranked = rank_texts(said["distribution"].items())
            for place, (text, share) in enumerate(ranked[:SHOWN]):
                label = for_page(name) if place == 0 else ""
                yield (
                    f'<tr><th style="text-align:left;padding-right:.8em">{label}</th>'
                    f'<td style="text-align:right;padding-right:.5em">{share:.0%}</td>'
                    f'<td style="width:7em"><div style="background:#0969da;height:.7em;width:{share:.0%}"></div></td>'
                    f'<td style="text-align:left;padding-left:.5em">{for_page(self._read(text), 80)}</td></tr>'
                )
            if len(ranked) > SHOWN:
                rest = sum(share for _, share in ranked[SHOWN:])
                others = quantity(len(ranked) - SHOWN, "other")
                yield f"<tr><td></td><td>{rest:.0%}</td><td></td><td>{others}</td></tr>"
        for name, why in self.failed_agents.items():
            yield (
                f'<tr><th style="text-align:left;padding-right:.8em">{for_page(name)}</th>'
                f'<td colspan="3" style="text-align:left;color:#cf222e">failed: {for_page(why, 200)}</td></tr>'
            )


def create_decision(
    settled: Mapping[str, Any],
    measured: Mapping[str, Any] | None,
    *,
    choices: list[str] | None,
    answers: str | None,
    calls: list[dict[str, Any]] | None,
    failed_agents: dict[str, str],
    spent: Sequence[AgentTokens],
    trajectory: list[RoundData],
    conformity: float | None,
    claimed: ClaimedAnswer | None = None,
    answer_end: End | None = None,
) -> DecisionData:
    """Returns the decision as data.

    `settled` holds the fields of a `coe_agents.policy.Decision`, and who decided; `measured` those of a `Measurement`
    but its `run`, None if nothing was measured.
    """
    measured = measured or {}
    proposals = measured.get("proposals", {})
    representatives = measured.get("representatives", ())
    support = measured.get("support", ())

    usages: dict[str, list[Usage]] = {}
    for request in spent:
        usages.setdefault(request["agent"], []).append(request["usage"])
    tokens = {}
    for name, used in usages.items():
        tokens[name] = add_usages(used) if len(used) > 1 else used[0]

    decided: dict[str, Any] = {
        "choices": choices,
        "answers": answers,
        "answer_end": answer_end,
        "calls": calls,
        "regime": settled.get("regime"),  # none without a quorum
        "support": dict(zip(representatives, support, strict=True)),
        "contested": proposals.get("contested"),
        "fields": proposals.get("fields"),
        "n_rounds": len(trajectory),
        "failed_agents": failed_agents,
        "agents": agents_as_data(measured.get("agents", {}), spent),
        "tokens": tokens,
        "trajectory": trajectory,
        "conformity": conformity,
        "claims": None if claimed is None else claimed["claims"],
    }
    values = {**view(measured, DecisionData), **view(settled, DecisionData), **decided}
    return GroupDecision(**values).data


def agents_as_data(
    measured: Mapping[str, Any], spent: Iterable[AgentTokens]
) -> dict[str, dict[str, Any]]:
    """Returns the measurement of each agent, with how its requests were sampled, in the order of rounds."""
    samplings: dict[str, list[Sampling]] = {}
    for request in spent:
        sampling = request["sampling"]
        if sampling is not None:
            samplings.setdefault(request["agent"], []).append(sampling)

    agents = {}
    for name, said in measured.items():
        in_order = sorted(samplings.get(name, []), key=lambda record: record["round"])
        agents[name] = {**said, "sampling": in_order}
    return agents


_ADVICE = "Pass the decision of a graph of create_coe_graph, or run it again"
amount = partial(checks.number, least=0, most=2**53, advice=_ADVICE)
count = partial(checks.integer, least=0, most=2**53, advice=_ADVICE)


def share(value: Any, where: str) -> float | None:
    """Returns a number in [0, 1], or None; raises as `coe_agents.checks.share` does."""
    return None if value is None else checks.share(value, where, advice=_ADVICE)


def check_decision(decision: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Refuses a decision that lacks one of these keys, or has something of another kind in one that is read."""
    for key in keys:
        must = f'a decision must have the key "{key}"'
        checks.require(key in decision, must, list(decision), _ADVICE)
        if key in _CHECKS:
            _CHECKS[key](decision[key], key)


def _text(value: object, where: str) -> None:
    checks.instance(value, str, where, what="a text", advice=_ADVICE)


def _each(check: Callable[[Any, str], object]) -> Callable[[Any, str], None]:

    def check_all(values: Any, where: str) -> None:
        checks.instance(values, Mapping, where, what="an object", advice=_ADVICE)
        for value in values.values():
            check(value, where)

    return check_all


def _agent(agent: Any, where: str) -> None:
    checks.instance(agent, Mapping, where, what="objects", advice=_ADVICE)
    _each(amount)(agent.get("distribution"), "distribution")


def _usage(usage: Any, _: str) -> None:
    for name in ("input_tokens", "output_tokens"):
        if usage[name] is not None:
            count(usage[name], name)


def _rounds(trajectory: Any, where: str) -> None:
    checks.several(trajectory, where, of="rounds", advice=_ADVICE)
    for data in trajectory:
        count(data["round"], "round")


def _claims(claims: Any, where: str) -> None:
    checks.several(claims, where, of="claims", advice=_ADVICE)
    for claim in claims:
        checks.instance(claim, Mapping, where, what="objects", advice=_ADVICE)
        checks.one_of(claim.get("action"), "action", get_args(ClaimAction))
        _text(claim.get("text"), "text")
        share(claim.get("support_between"), "support_between")
        checks.instance(claim.get("agents"), Mapping, where, what="objects", advice=_ADVICE)
        for shares in claim["agents"].values():
            _each(share)(shares, where)


_CHECKS: Mapping[str, Callable[[Any, str], object]] = {
    "action": partial(checks.one_of, known=get_args(FinalAction)),
    "cause": partial(checks.one_of, known=CAUSES),
    **dict.fromkeys(("answer", "reason", "decided_by", "answers", "ruling"), _text),
    "regime": partial(checks.one_of, known=get_args(Regime)),
    **dict.fromkeys(("coe", "aleatoric", "epistemic"), amount),
    "conformity": share,
    "n_rounds": count,
    "failed_agents": _each(_text),
    "fields": _each(share),
    "agents": _each(_agent),
    "tokens": _each(_usage),
    "trajectory": _rounds,
    "claims": _claims,
}
