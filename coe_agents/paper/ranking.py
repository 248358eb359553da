"""Owns the comparison of metrics over groups: the experiments `selective-prediction`, `triviaqa` and `squad`.

They are the paper's tab:2, fig:2 and fig:3; tab:1, `model-accuracy`, is how often each model alone is right. A group is
some of the agents, whose responses are clustered and judged as one group.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.bootstrap import estimate_all
from coe_agents.evaluation.metrics.selective_prediction import RETENTIONS
from coe_agents.evaluation.metrics.tallies import FloatArray, join_ties
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.experiments.experiment import Axes, Cell, Experiment, Figure, Row, plain
from coe_agents.measurement.estimators import ESTIMATORS
from coe_agents.measurement.statistics import Statistics
from coe_agents.paper.published import create_experiment, paper_rows
from coe_agents.text import quantity
from coe_agents.types import Sample, SampledQuestion, in_canonical_order

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
        return sum(statistics.is_tied for statistics in self.statistics)

    @property
    def size(self) -> str:
        questions = quantity(len(self.statistics), "question")
        ties = quantity(self.n_ties, "tie")
        return f"{questions}, {ties}"

    def values(self, estimator: str) -> FloatArray | None:
        """Returns a score of each question, higher = less sure, values within 1e-9 equal; None if one lacks it."""
        values = []
        for statistics in self.statistics:
            value = ESTIMATORS[estimator](statistics)
            if value is None:
                return None
            values.append(value)
        return join_ties(values) if values else None

    def mean(self, estimator: str) -> float:
        """Returns the mean of a score over the questions; NaN if one lacks it."""
        values = self.values(estimator)
        return math.nan if values is None else float(values.mean())

    def auroc(self, estimator: str) -> float:
        """Returns how well a score tells wrong answers from right ones; NaN if a question lacks it."""
        values = self.values(estimator)
        if values is None:
            return math.nan
        return auroc(correct=self.correct, uncertainty=values)


def judge_group(
    questions: Sequence[SampledQuestion],
    agents: Sequence[str],
    setup: ScoringSetup,
    *,
    n_samples: int | None = None,
) -> JudgedGroup:
    """Clusters and judges the responses of some agents, in a cluster space of their own.

    A question is left out unless all of them responded and its correctness is known; a ValueError if none is left. Of
    each agent the first `n_samples` responses count; None: all.
    """
    known = []
    verdicts = []
    for statistics, verdict in setup.judge(of_agents(questions, agents, n_samples=n_samples)):
        if verdict is not None:
            known.append(statistics)
            verdicts.append(verdict)
    if not known:
        raise ValueError(
            f'"questions" must hold one to which all of {", ".join(agents)} responded and whose correctness is known; '
            f"none of {len(questions)} is. Pass samples of these agents, with references or labels"
        )
    return JudgedGroup(tuple(known), np.array(verdicts))


def of_agents(
    questions: Iterable[SampledQuestion], agents: Sequence[str], *, n_samples: int | None = None
) -> list[SampledQuestion]:
    """Returns the questions to which all these agents responded, with their responses only, the first `n_samples`."""
    kept = []
    for question in questions:
        by_agent: dict[str, list[Sample]] = {name: [] for name in agents}
        for response in question.responses:
            if response["agent"] in by_agent:
                by_agent[response["agent"]].append(response)

        if all(by_agent.values()):
            counted = list[Sample]()
            for responses in by_agent.values():
                counted += responses[:n_samples]
            kept.append(replace(question, responses=tuple(counted), failures=()))
    return kept


def order_by_responses(agents: Iterable[str], questions: Iterable[SampledQuestion]) -> list[str]:
    """Returns the agents in an order that only their responses decide: neither names nor the order given.

    Agents that responded alike to everything are interchangeable.
    """
    digests = {name: sha256() for name in agents}
    for question in sorted(questions, key=lambda question: question.id):
        for response in in_canonical_order(question.responses):
            digest = digests.get(response["agent"])
            if digest is not None:
                values = [response.get(name) for name in ("round", "index", "text", "logprob")]
                digest.update(json.dumps([question.id, *values]).encode())
    return sorted(digests, key=lambda name: digests[name].digest())


_AUROC = ("AUROC", "AUROC low", "AUROC high")
_RETENTIONS = tuple(f"{share:.0%}" for share in RETENTIONS)
_LESS = ("less CoE's", "less CoE's low", "less CoE's high")
RANKING_COLUMNS = (*_AUROC, "AURAC", "paper's AURAC", *_RETENTIONS, *_LESS)
"""AUROC with its 95 % interval, both areas, accuracy at each retention, and AUROC less that of CoE (paired)."""

_N_RESAMPLES = 1000
_MOST_MODELS = 3


def selective_prediction(
    questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup
) -> Experiment:
    """Returns all metrics of the first two and the first three agents; every baseline is the mean over the models."""
    groups: dict[Cell, Sequence[str]] = {}
    for size in (2, 3):
        if size <= len(agents):
            groups[size] = agents[:size]
    return _compare(
        groups,
        METRICS,
        questions,
        setup,
        name="selective-prediction",
        title="Selective prediction by each uncertainty metric",
        key="models",
        notes=(
            "Semantic Entropy and U_A are the same number by definition; the paper prints two.",
            "The paper's AURAC is 0.1 (a80/2 + a90 + a95 + a100/2); AURAC is the mean accuracy over all retentions.",
            "The paper's columns 80% and 95% of three models are swapped: only so do they give its AURAC.",
        ),
    )


def panels(
    name: str,
    title: str,
    questions: Sequence[SampledQuestion],
    agents: Sequence[str],
    setup: ScoringSetup,
    *,
    twins: Sequence[str] = (),
) -> Experiment:
    """Returns a panel for each single model, for two, for three, and for two instances of each.

    The first three agents count. `twins` are second instances of them, which sampled with other seeds; without them
    the last panel is left out. `name` is "triviaqa" or "squad", and `title` says which questions they are.
    """
    models = list(agents[:_MOST_MODELS])
    groups: dict[Cell, Sequence[str]] = {model: [model] for model in models}
    for size in range(2, len(models) + 1):
        groups[f"{size} models"] = models[:size]
    notes = [
        "Of one model U_E is 0 for every question, and CoE is its semantic entropy.",
        "The paper prints this figure without numbers; the ones shown here are from its text.",
    ]
    if twins and len(models) == _MOST_MODELS:
        groups["6 models"] = [*models, *twins[:_MOST_MODELS]]
    else:
        notes.append("Six models need a second instance of each of three.")
    return _compare(
        groups,
        {**METRICS, **DIVERGENCES},
        questions,
        setup,
        name=name,
        title=title,
        key="panel",
        notes=notes,
        width=14.0,
        height=4.0 * math.ceil(len(groups) / 3) + 0.5,
    )


def _compare(
    groups: Mapping[Cell, Sequence[str]],
    metrics: Mapping[str, str],
    questions: Sequence[SampledQuestion],
    setup: ScoringSetup,
    *,
    name: str,
    title: str,
    key: str,
    **layout: Any,
) -> Experiment:
    columns = (key, "metric", *RANKING_COLUMNS)
    titles = {}
    rows: list[Row] = []
    settings = {}
    for group, agents in groups.items():
        titles[group] = group if isinstance(group, str) else f"{group} models"
        judged = judge_group(questions, agents, setup)
        settings[titles[group]] = f"{' + '.join(agents)}, {judged.size}"
        for row in _ranking_rows(judged, metrics):
            rows.append((group, *row))
    paper = paper_rows(name, columns)

    def draw(figure: Figure) -> None:
        n_lines = math.ceil(len(groups) / 3)
        n_columns = min(3, len(groups))
        cells = figure.subplots(n_lines, n_columns, squeeze=False).flat
        for axes in cells[len(groups) :]:
            axes.axis("off")
        for place, group in enumerate(groups):
            ours = [row[1:] for row in rows if row[0] == group]
            printed = {row[1]: row[2] for row in paper if row[0] == group}
            _draw_aurocs(cells[place], ours, printed, title=titles[group], legend=place == 0)

    return create_experiment(
        name=name,
        title=title,
        columns=columns,
        n_keys=2,
        rows=tuple(rows),
        draw=draw,
        settings={**settings, "intervals": f"95 %, {_N_RESAMPLES} paired bootstrap resamples"},
        **layout,
    )


def _ranking_rows(group: JudgedGroup, metrics: Mapping[str, str]) -> list[Row]:
    known = {}
    for name, estimator in metrics.items():
        values = group.values(estimator)
        if values is not None:
            known[name] = values
    estimates, differences = estimate_all(
        group.correct, known, reference="CoE", n_resamples=_N_RESAMPLES
    )

    rows: list[Row] = []
    for name in metrics:
        if name not in estimates:
            rows.append((name, *[None] * len(RANKING_COLUMNS)))
            continue
        # in the order of the columns; of all but AUROC the value alone, without the interval
        estimate = estimates[name]
        figures = list(estimate["auroc"])
        without_interval = ["aurac", "paper_aurac"]
        without_interval += [f"accuracy at {share}" for share in RETENTIONS]
        for figure in without_interval:
            figures.append(estimate[figure][0])
        if name in differences:
            figures += differences[name]["auroc"]
        else:
            figures += [math.nan] * 3
        rows.append((name, *map(plain, figures)))
    return rows


def _draw_aurocs(
    axes: Axes, rows: Sequence[Row], paper: Mapping[Cell, Cell], *, title: str, legend: bool
) -> None:
    """Draws a bar for each row, which begins with the metric and its AUROC with the interval."""
    orange: Any = {"color": "tab:orange", "markeredgecolor": "black"}
    names = []
    for place, (name, value, low, high, *_) in enumerate(rows):
        names.append(str(name))
        if isinstance(value, float) and isinstance(low, float) and isinstance(high, float):
            colour = "tab:purple" if name == "CoE" else "tab:blue"
            axes.barh(place, value, color=colour, alpha=0.75)
            ends = [[value - low], [high - value]]
            axes.errorbar(value, place, xerr=ends, color="black", capsize=2, linewidth=1)
        else:
            axes.text(0.02, place, "not computable", va="center", fontsize=8, color="grey")
        printed = paper.get(name)
        if isinstance(printed, float):
            axes.plot(printed, place, "D", zorder=3, **orange)

    diamond = axes.plot([], [], "D", label="the paper's", **orange)
    chance = axes.axvline(0.5, color="grey", linestyle=":", linewidth=1, label="chance")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlim=(0.0, 1.0), xlabel="AUROC, with its 95 % interval")
    axes.set_title(title, fontsize=10)
    if legend:
        axes.figure.legend(handles=[*diamond, chance], loc="upper right", ncols=2, fontsize=8)


_OF_TRAIN = ("train accuracy", "n train", "ties train")
_OF_VALIDATION = ("validation accuracy", "n validation", "ties validation")
_ACCURACIES = ("model", "dataset", *_OF_TRAIN, *_OF_VALIDATION)


def model_accuracy(
    datasets: Mapping[str, tuple[Sequence[SampledQuestion] | None, Sequence[SampledQuestion]]],
    agents: Sequence[str],
    setup: ScoringSetup,
) -> Experiment:
    """Returns each model's accuracy by dataset and split; its answer is that of its own leading cluster.

    `datasets` holds training questions, or None, and validation questions, by the dataset's name.
    """

    def figures_of(
        questions: Sequence[SampledQuestion] | None, model: str
    ) -> tuple[Cell, Cell, Cell]:
        if questions is None:
            return None, None, None
        alone = judge_group(questions, [model], setup)
        return float(alone.correct.mean()), alone.correct.size, alone.n_ties

    rows = []
    for model in agents:
        for dataset, (train, validation) in datasets.items():
            figures = (*figures_of(train, model), *figures_of(validation, model))
            rows.append((model, dataset, *figures))
    return create_experiment(
        name="model-accuracy",
        title="Accuracy of each model alone",
        columns=_ACCURACIES,
        n_keys=2,
        rows=tuple(rows),
        notes=(
            "A model's answer is the most probable response of its largest cluster.",
            "Where its largest clusters tie, the share of them that is right counts.",
        ),
    )
