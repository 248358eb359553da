"""Owns `GroupDecision`, the typed view of an outcome: attributes, words, HTML and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from io import BytesIO
from typing import TYPE_CHECKING, Any

from coe_agents._plurals import quantity
from coe_agents.policy.measurement import DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD
from coe_agents.policy.proposal_wording import action_in_words, contested_in_words, is_about_actions
from coe_agents.text import for_page, for_terminal
from coe_agents.types import Action, Regime

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEADINGS: Mapping[str, str] = {"abstain": "No answer", "escalate": "Escalated: somebody else must decide"}
_QUADRANTS: tuple[tuple[Regime, float, float], ...] = (  # regime, and its corner of the plane
    ("consensus", 0.02, 0.02),
    ("conflict", 0.02, 0.98),
    ("ambiguous", 0.98, 0.02),
    ("unknown", 0.98, 0.98),
)
_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """The outcome of one question, typed and read-only; a notebook shows it as HTML.

    Attributes:
        action: "answer", "abstain" or "escalate".
        answer: The answer; None unless the action is "answer".
        reason: Why, in one sentence.
        question: What was asked; None where the result does not say.
        decided_by: "group", or who decided after an escalation.
        regime: "consensus", "conflict", "ambiguous" or "unknown"; None, like the numbers, if nothing was measured.
        coe: Collaborative Entropy, the sum of the next two.
        aleatoric: Mean semantic entropy of the agents, in nats.
        epistemic: Weighted divergence of the agents from their mean.
        interval: 95 % interval of `coe`.
        support: The ensemble mean of each cluster, by a representative response.
        agents: The probability that each agent gives to each cluster, by the agent's name.
        failed_agents: Why each other agent failed, by name.
        calls: The tool calls to run, each with "name", "args" and "id"; None unless the answer is a proposal.
        contested: What the proposals disagree about: see `coe_agents.actions.contested`; None if nothing.
        n_rounds: How many rounds were asked.
        data: The decision as the graph returned it: see `coe_agents.graph.DecisionData`.

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

    action: Action
    answer: str | None
    reason: str
    question: str | None = None
    decided_by: str = "group"
    regime: Regime | None = None
    coe: float | None = None
    aleatoric: float | None = None
    epistemic: float | None = None
    interval: tuple[float, float] | None = None
    support: Mapping[str, float] = field(default_factory=dict)
    agents: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    failed_agents: Mapping[str, str] = field(default_factory=dict)
    calls: Sequence[Mapping[str, Any]] | None = None
    contested: Mapping[str, Any] | None = None
    n_rounds: int = 1
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_state(cls, result: Mapping[str, Any]) -> GroupDecision:
        """Returns the decision in the result of a graph of `create_coe_graph`.

        Raises:
            ValueError: If the result holds no decision, for example because the run waits for a person.
        """
        decision = result.get("decision")
        if not isinstance(decision, Mapping):
            waiting = "; the run waits for a person: resume it first" if "__interrupt__" in result else ""
            raise ValueError(
                f'"result" must hold a "decision"; got the keys {", ".join(sorted(result)) or "none"}{waiting}. '
                "Pass what the graph's invoke returned"
            )
        own = {one.name for one in fields(cls)} - {"question", "interval", "agents", "data"}
        interval = decision.get("interval")
        return cls(
            question=_question(result.get("messages") or ()),
            interval=None if interval is None else (interval[0], interval[1]),
            agents={name: dict(said["distribution"]) for name, said in decision.get("agents", {}).items()},
            data=decision,
            **{name: decision[name] for name in own & decision.keys()},
        )

    @property
    def is_answer(self) -> bool:
        """Whether the group gave an answer."""
        return self.action == "answer"

    def _read(self, text: str | None) -> str:
        """Returns an answer in words: tool calls as people read them, texts as they are."""
        return action_in_words(text or "") if is_about_actions(self.data) else str(text)

    @property
    def _reasons(self) -> list[str]:
        """The reason, and what the proposals are contested about, as sentences."""
        contested = self.contested
        return [f"{self.reason}.", *([contested_in_words(contested, n_agents=len(self.agents))] if contested else [])]

    def explain(self) -> str:
        """Returns the outcome in plain words: the answer or the refusal first, then why, then who failed."""
        head = f"Answer: {self._read(self.answer)}" if self.is_answer else f"{_HEADINGS[self.action]}."
        lines = [head, *self._reasons]
        lines += [f"{name} did not answer: {why}" for name, why in self.failed_agents.items()]
        return "\n".join(lines)

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
        figure = _figure(9.0, 3.4 + 0.3 * max(0, len(self.agents) - 3))
        bars, plane = figure.subplots(1, 2, width_ratios=(1.6, 1.0))
        _draw_bars(bars, self)
        if handles := bars.get_legend_handles_labels()[0]:
            legend = figure.legend(handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=9)
            for text in legend.get_texts():
                text.set_parse_math(False)
        draw_plane(plane, [self], aleatoric_threshold=aleatoric_threshold, epistemic_threshold=epistemic_threshold)
        title = self._read(self.answer) if self.is_answer else _HEADINGS[self.action]
        figure.suptitle(for_terminal(title, 70), fontsize=12, fontweight="bold", parse_math=False)
        return figure

    def _repr_html_(self) -> str:
        colour = "#1a7f37" if self.is_answer else "#9a6700"
        title = self._read(self.answer) if self.is_answer else _HEADINGS[self.action]
        reasons = " ".join(for_page(each) for each in self._reasons)
        parts = [
            f'<div style="font-family:sans-serif;max-width:62em;border-left:4px solid {colour};padding-left:.8em">',
            f'<div style="opacity:.7">{for_page(self.question)}</div>' if self.question else "",
            f'<div style="font-size:1.2em;font-weight:600;color:{colour}">{for_page(title, 300)}</div>',
            f'<div style="margin:.2em 0 .6em">{reasons}</div>',
            '<div style="display:flex;flex-wrap:wrap;gap:1.2em;align-items:flex-start">',
            f'<table style="border-collapse:collapse">{"".join(self._html_rows())}</table>',
            _svg_plane(self),
            "</div></div>",
        ]
        return "".join(parts)

    def _html_rows(self) -> Iterable[str]:
        for name, distribution in self.agents.items():
            ranked = sorted(distribution.items(), key=lambda item: (-item[1], item[0]))
            for place, (text, share) in enumerate(ranked[:_SHOWN]):
                label = for_page(name) if place == 0 else ""
                yield (
                    f'<tr><th style="text-align:left;padding-right:.8em">{label}</th>'
                    f'<td style="text-align:right;padding-right:.5em">{share:.0%}</td>'
                    f'<td style="width:7em"><div style="background:#0969da;height:.7em;width:{share:.0%}"></div></td>'
                    f'<td style="text-align:left;padding-left:.5em">{for_page(self._read(text), 80)}</td></tr>'
                )
            if len(ranked) > _SHOWN:
                rest, n_others = sum(share for _, share in ranked[_SHOWN:]), len(ranked) - _SHOWN
                others = quantity(n_others, "other")
                yield f"<tr><td></td><td>{rest:.0%}</td><td></td><td>{others}</td></tr>"
        for name, why in self.failed_agents.items():
            yield (
                f'<tr><th style="text-align:left;padding-right:.8em">{for_page(name)}</th>'
                f'<td colspan="3" style="text-align:left;color:#cf222e">failed: {for_page(why, 200)}</td></tr>'
            )


def plot_regimes(
    decisions: Iterable[GroupDecision],
    *,
    aleatoric_threshold: float = DEFAULT_ALEATORIC_THRESHOLD,
    epistemic_threshold: float = DEFAULT_EPISTEMIC_THRESHOLD,
) -> Figure:
    """Draws decisions as points on the plane of aleatoric and epistemic uncertainty; those not measured are left out.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    figure = _figure(5.2, 4.6)
    plane = figure.subplots()
    draw_plane(plane, [*decisions], aleatoric_threshold=aleatoric_threshold, epistemic_threshold=epistemic_threshold)
    return figure


def draw_plane(
    axes: Axes, decisions: Iterable[GroupDecision], *, aleatoric_threshold: float, epistemic_threshold: float
) -> None:
    """Draws the four quadrants and a point for each measured decision, by action."""
    measured = [decision for decision in decisions if decision.coe is not None]
    looks = (("answer", "o", "tab:green"), ("abstain", "X", "tab:orange"), ("escalate", "^", "tab:purple"))
    for action, marker, colour in looks:
        if points := [one for one in measured if one.action == action]:
            xs, ys = [one.aleatoric or 0.0 for one in points], [one.epistemic or 0.0 for one in points]
            axes.scatter(xs, ys, marker=marker, color=colour, label=action, zorder=3, s=50)
    far_a = max([2.0 * aleatoric_threshold, *(1.15 * (one.aleatoric or 0.0) for one in measured)])
    far_e = max([2.0 * epistemic_threshold, *(1.15 * (one.epistemic or 0.0) for one in measured)])
    axes.set_xlim(-0.03 * far_a, far_a)
    axes.set_ylim(-0.03 * far_e, far_e)
    axes.axvline(aleatoric_threshold, color="0.6", linewidth=1, linestyle="--")
    axes.axhline(epistemic_threshold, color="0.6", linewidth=1, linestyle="--")
    for regime, across, up in _QUADRANTS:
        axes.text(
            across,
            up,
            regime,
            transform=axes.transAxes,
            color="0.45",
            ha="left" if across < 0.5 else "right",
            va="bottom" if up < 0.5 else "top",
        )
    axes.set_xlabel("aleatoric: doubt within agents (nats)")
    axes.set_ylabel("epistemic: disagreement")
    if len({one.action for one in measured}) > 1:
        axes.legend(loc="center right", frameon=False)


def _draw_bars(axes: Axes, decision: GroupDecision) -> None:
    ranked = sorted(decision.support, key=lambda text: (-decision.support[text], text))
    names = [*decision.agents]
    left = dict.fromkeys(names, 0.0)
    for place, text in enumerate(ranked[:_SHOWN]):
        widths = [decision.agents[name].get(text, 0.0) for name in names]
        axes.barh(names, widths, left=[left[name] for name in names], label=for_terminal(text, 40), color=f"C{place}")
        left = {name: left[name] + width for name, width in zip(names, widths, strict=True)}
    if len(ranked) > _SHOWN:
        axes.barh(names, [1.0 - left[name] for name in names], left=[*left.values()], label="others", color="0.8")
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel("share of the agent's responses")
    for label in axes.get_yticklabels():
        label.set_parse_math(False)


def _svg_plane(decision: GroupDecision) -> str:
    """Returns the plane of the two uncertainties with this decision on it, as SVG; "" if nothing was measured."""
    if decision.aleatoric is None or decision.epistemic is None:
        return ""
    size = 150.0
    far_a = max(2.0 * DEFAULT_ALEATORIC_THRESHOLD, 1.15 * decision.aleatoric)
    far_e = max(2.0 * DEFAULT_EPISTEMIC_THRESHOLD, 1.15 * decision.epistemic)
    x, y = size * decision.aleatoric / far_a, size * (1.0 - decision.epistemic / far_e)
    line_x = size * DEFAULT_ALEATORIC_THRESHOLD / far_a
    line_y = size * (1.0 - DEFAULT_EPISTEMIC_THRESHOLD / far_e)
    return (
        f'<svg width="{size + 20:.0f}" height="{size + 36:.0f}" role="img" aria-label="aleatoric '
        f'{decision.aleatoric:.3f}, epistemic {decision.epistemic:.3f}" font-family="sans-serif" font-size="10">'
        '<g transform="translate(16,4)" fill="currentColor">'
        f'<rect width="{size:.0f}" height="{size:.0f}" fill="none" stroke="#888"/>'
        f'<path d="M{line_x:.1f} 0V{size:.0f}M0 {line_y:.1f}H{size:.0f}" stroke="#888" stroke-dasharray="3" />'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="#cf222e"/>'
        f'<text x="0" y="{size + 13:.0f}">aleatoric {decision.aleatoric:.2f} →</text>'
        f'<text x="0" y="{size + 27:.0f}" font-weight="bold">{for_page(decision.regime or "")}</text>'
        f'<text transform="translate(-5,{size:.0f}) rotate(-90)">epistemic {decision.epistemic:.2f} →</text>'
        "</g></svg>"
    )


def _figure(width: float, height: float) -> Figure:
    """Returns a figure that a notebook shows by itself; no state of pyplot is touched."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('plots need matplotlib; pip install "coe-agents[plots]"') from error

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return ShownFigure(figsize=(width, height), layout="constrained")


def _question(messages: Iterable[Any]) -> str | None:
    asked = [message.text for message in messages if getattr(message, "type", "") == "human"]
    return asked[-1] if asked else None
