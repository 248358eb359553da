"""Owns Algorithm 1 over a group of questions, and the experiments on it.

They are `epsilon` (fig:4), `sampling` (fig:5) and `divergences` (fig:6).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coe_agents.errors import ConfigurationError
from coe_agents.evaluation.scoring.correctness import judge_clusters, mean_verdict
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.experiments.experiment import Cell, Experiment, Figure, Row, plain
from coe_agents.paper.published import band, create_experiment, paper_rows
from coe_agents.paper.ranking import JudgedGroup, judge_group
from coe_agents.types import SampledQuestion
from coe_agents.uncertainty import coordinate
from coe_agents.uncertainty.collaborative import ensemble_mean
from coe_agents.uncertainty.ties import shares_lead

SOLVERS = ("greedy", "softmax")
"""The literal algorithm, and a smooth one that the paper allows in its place."""
MAX_ITERATIONS = {"greedy": 10, "softmax": 200}
"""The paper's bound for the literal algorithm; enough for the smooth one to converge."""


@dataclass(frozen=True, slots=True)
class CoordinatedGroup:
    """Means over the questions: CoE before and after Algorithm 1, its iterations, and shares of the questions.

    `converged`: those that stopped by epsilon; `risen`: those whose CoE rose; `accuracy`: those whose answer by the
    last weights and distributions is right, of a tie the share of its answers.
    """

    before: float
    after: float
    n_iterations: float
    converged: float
    risen: float
    accuracy: float


def coordinate_group(
    group: JudgedGroup,
    setup: ScoringSetup,
    *,
    solver: str,
    divergence: str = "kl",
    epsilon: float = 1e-6,
) -> CoordinatedGroup:
    """Runs Algorithm 1 on every question of a group."""
    figures = []
    chosen = []
    for statistics in group.statistics:
        ended = coordinate(
            statistics.distributions,
            divergence=divergence,
            epsilon=epsilon,
            solver=solver,
            max_iterations=MAX_ITERATIONS[solver],
        )
        before = ended.initial_coe
        has_risen = ended.coe > before + 1e-9
        figures.append([before, ended.coe, ended.n_iterations, ended.converged, has_risen])

        mean = ensemble_mean(ended.distributions, weights=ended.weights)
        leading = np.flatnonzero(shares_lead(mean))
        chosen.append((statistics, leading.tolist()))

    judged = judge_clusters(chosen, setup.criterion)
    accuracies = [mean_verdict(verdicts) or 0.0 for _, verdicts in judged]
    # in the order of the fields
    columns = np.column_stack([figures, accuracies])
    return CoordinatedGroup(*columns.mean(axis=0).tolist())


_EPSILONS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_EPSILON_DRAWN = ("iterations", "accuracy", "final CoE")
_EPSILON_COLUMNS = ("solver", "epsilon", *_EPSILON_DRAWN, "converged")


def epsilon(
    questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup
) -> Experiment:
    """Returns iterations, accuracy and final CoE of the first two agents at five thresholds, by two solvers."""
    two = agents[:2]
    group = judge_group(questions, two, setup)
    rows = []
    for solver in SOLVERS:
        for threshold in _EPSILONS:
            ended = coordinate_group(group, setup, solver=solver, epsilon=threshold)
            figures = (ended.n_iterations, ended.accuracy, ended.after, ended.converged)
            rows.append((solver, f"{threshold:.0e}", *figures))

    bounds = [f"{solver} at most {MAX_ITERATIONS[solver]}" for solver in SOLVERS]
    return create_experiment(
        name="epsilon",
        title="Algorithm 1 at several thresholds of convergence",
        columns=_EPSILON_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        draw=partial(_draw_epsilon, rows),
        settings={"group": f"{' + '.join(two)}, {group.size}", "iterations": ", ".join(bounds)},
        notes=(
            "Means over the questions. greedy is the algorithm as printed: it converges at its second iteration.",
            "The literal algorithm's CoE of two models ends at 0 or log 2 = 0.693, so a mean of 0.88 is out of reach.",
        ),
        width=12.0,
        height=4.5,
    )


def _draw_epsilon(rows: Sequence[Row], figure: Figure) -> None:
    ours = _by_column(_EPSILON_COLUMNS, rows)
    paper = _by_column(_EPSILON_COLUMNS, paper_rows("epsilon", _EPSILON_COLUMNS))
    panels = figure.subplots(1, len(_EPSILON_DRAWN))
    for axes, column in zip(panels, _EPSILON_DRAWN, strict=True):
        for solver, marker in zip(SOLVERS, ("o-", "s--"), strict=True):
            of_solver = [row for row in ours if row["solver"] == solver]
            thresholds = [str(row["epsilon"]) for row in of_solver]
            values = [row[column] for row in of_solver]
            axes.plot(thresholds, values, marker, label=solver)

        # the paper prints numbers of some columns, and of others a range
        printed = [row for row in paper if isinstance(row[column], float)]
        red: Any = {"color": "tab:red", "label": "the paper's"}
        if printed:
            thresholds = [str(row["epsilon"]) for row in printed]
            values = [row[column] for row in printed]
            axes.plot(thresholds, values, "D:", **red)
        else:
            low, high = band(paper[0][column])
            axes.axhspan(low, high, alpha=0.2, **red)
        axes.set(xlabel="epsilon", ylim=(0, None if printed else 1))
        axes.set_title(column, fontsize=10)
        axes.legend(fontsize=8)


def _by_column(columns: Sequence[str], rows: Sequence[Row]) -> list[dict[str, Cell]]:
    """Returns the cells of each row by the names of their columns."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


_DIVERGENCES = ("kl", "js", "hellinger", "wasserstein")
_SHARES = ("accuracy before", "accuracy after")
_DIVERGENCE_COLUMNS = (
    "solver",
    "divergence",
    "CoE before",
    "CoE after",
    "CoE rose",
    *_SHARES,
    "gain",
)


def divergences(
    questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup
) -> Experiment:
    """Returns CoE before and after Algorithm 1 for the first two agents, and the gain in accuracy, as shares.

    Accuracy before is that of the group's answer without the algorithm. Wasserstein is over the 0/1 ground metric.
    """
    two = agents[:2]
    group = judge_group(questions, two, setup)
    before = float(group.correct.mean())
    rows = []
    for solver in SOLVERS:
        for divergence in _DIVERGENCES:
            ended = coordinate_group(group, setup, solver=solver, divergence=divergence)
            coe = (ended.before, ended.after, ended.risen)
            accuracies = (before, ended.accuracy, ended.accuracy - before)
            rows.append((solver, divergence, *coe, *accuracies))

    return create_experiment(
        name="divergences",
        title="CoE before and after Algorithm 1, and the gain in accuracy",
        columns=_DIVERGENCE_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        draw=partial(_draw_divergences, rows),
        settings={"group": f"{' + '.join(two)}, {group.size}"},
        notes=(
            "Where the literal algorithm (greedy) ends does not depend on the divergence: its four gains are equal.",
            "Values of CoE under different divergences are on different scales.",
        ),
        width=11.0,
    )


def _draw_divergences(rows: Sequence[Row], figure: Figure) -> None:
    ours = _by_column(_DIVERGENCE_COLUMNS, rows)
    paper = _by_column(_DIVERGENCE_COLUMNS, paper_rows("divergences", _DIVERGENCE_COLUMNS))
    printed_gains = {(row["solver"], row["divergence"]): row["gain"] for row in paper}
    panels = figure.subplots(1, len(SOLVERS), sharey=True)
    for axes, solver in zip(panels, SOLVERS, strict=True):
        of_solver = [row for row in ours if row["solver"] == solver]
        divergences = [row["divergence"] for row in of_solver]
        places = np.arange(len(of_solver))
        before = [float(row["CoE before"] or 0) for row in of_solver]
        axes.bar(places - 0.2, before, 0.38, color="lightsteelblue", label="CoE before")
        after = [float(row["CoE after"] or 0) for row in of_solver]
        axes.bar(places + 0.2, after, 0.38, color="tab:blue", label="CoE after")

        for place, row in enumerate(of_solver):
            text = f"gain {row['gain']:+.1%}"
            printed = printed_gains.get((solver, row["divergence"]))
            if printed is not None:
                text += f"\npaper {printed:+.1%}"
            top = 1.02 * max(before[place], after[place])
            axes.text(place, top, text, ha="center", va="bottom", fontsize=8)
        axes.set_xticks(places, divergences)
        axes.set_title(f"solver: {solver}", fontsize=10)
        axes.margins(y=0.25)
        axes.legend(fontsize=8, loc="upper right", ncols=2)
    figure.axes[0].set_ylabel("CoE, mean over the questions")


GENERATIONS = (4, 5, 6, 7, 8)
_SAMPLING_DRAWN = (*_SHARES, "AUROC of CoE", "CoE")
_SAMPLING_COLUMNS = ("varied", "value", *_SHARES, "CoE", "U_A", "U_E", "AUROC of CoE", "ties")


def sampling(
    by_temperature: Mapping[float, Sequence[SampledQuestion]],
    questions: Sequence[SampledQuestion],
    agents: Sequence[str],
    setup: ScoringSetup,
) -> Experiment:
    """Returns accuracy before and after Algorithm 1, CoE and its AUROC for the first two agents.

    `by_temperature` holds questions with the responses sampled at each temperature, and may be empty. Of the responses
    in `questions` the first 4 to 8 are taken; a number that an agent lacks is left out.

    Raises:
        ConfigurationError: There are too few responses, and none at other temperatures.
    """
    two = list(agents[:2])
    rows = []
    for temperature, asked in sorted(by_temperature.items()):
        group = judge_group(asked, two, setup)
        rows.append(("temperature", temperature, *_sampling_figures(group, setup)))
    fewest = fewest_responses(questions, two)
    for n in GENERATIONS:
        if n <= fewest:
            group = judge_group(questions, two, setup, n_samples=n)
            rows.append(("generations", n, *_sampling_figures(group, setup)))
    if not rows:
        raise ConfigurationError(f"sampling {needs_responses(fewest)}", hint="Pass more samples")

    notes = [
        "Accuracy before is that of the group's answer, after that of Algorithm 1's.",
        "Fewer generations are the first of the same responses.",
    ]
    if not by_temperature:
        notes.append("Temperatures need models to ask; saved samples have one.")
    return create_experiment(
        name="sampling",
        title="Sampling temperature and number of generations",
        columns=_SAMPLING_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        draw=partial(_draw_sampling, rows),
        settings={"group": " + ".join(two), "algorithm": "greedy, the literal one, epsilon 1e-6"},
        notes=notes,
        width=11.0,
        height=4.8,
    )


def _sampling_figures(group: JudgedGroup, setup: ScoringSetup) -> Row:
    before = float(group.correct.mean())
    after = coordinate_group(group, setup, solver="greedy").accuracy
    means = [group.mean(part) for part in ("coe", "aleatoric", "epistemic")]
    return (before, after, *means, plain(group.auroc("coe")), group.n_ties)


def needs_responses(fewest: int) -> str:
    """Returns what `sampling` needs where an agent gave no more responses than these to some question."""
    needed = f"{GENERATIONS[0]} responses or more of each agent"
    return f"needs {needed}; the fewest to a question are {fewest}"


def fewest_responses(questions: Sequence[SampledQuestion], agents: Sequence[str]) -> int:
    """Returns how many responses these agents gave at least, where they gave any."""
    counts = []
    for question in questions:
        by_agent = Counter(response["agent"] for response in question.responses)
        for name in agents:
            if by_agent[name]:
                counts.append(by_agent[name])
    return min(counts, default=0)


def _draw_sampling(rows: Sequence[Row], figure: Figure) -> None:
    ours = _by_column(_SAMPLING_COLUMNS, rows)
    paper = _by_column(_SAMPLING_COLUMNS, paper_rows("sampling", _SAMPLING_COLUMNS))
    kinds = list(dict.fromkeys(row["varied"] for row in ours))
    [panels] = figure.subplots(1, len(kinds), squeeze=False)
    for axes, varied in zip(panels, kinds, strict=True):
        of_kind = [row for row in ours if row["varied"] == varied]
        values = [row["value"] for row in of_kind]
        for column, marker in zip(_SAMPLING_DRAWN, ("o-", "s--", "v-", "k^-"), strict=True):
            # as floats, in which None is NaN
            heights = np.array([row[column] for row in of_kind], dtype=np.float64)
            axes.plot(values, heights, marker, label=column)

        of_paper = [row for row in paper if row["varied"] == varied]
        printed = [row for row in of_paper if isinstance(row["accuracy after"], float)]
        red: Any = {"color": "tab:red", "label": "paper's accuracy"}
        if printed:
            printed_values = [row["value"] for row in printed]
            accuracies = [row["accuracy after"] for row in printed]
            axes.plot(printed_values, accuracies, "D:", **red)
        else:
            # a range of each
            printed_values = [row["value"] for row in of_paper]
            bands = [band(row["accuracy after"]) for row in of_paper]
            lows, highs = zip(*bands, strict=True)
            axes.fill_between(printed_values, lows, highs, alpha=0.4, **red)
        axes.set(xlabel=varied, xticks=values, ylim=(0, 1.05))
        axes.set_ylabel("accuracy, AUROC; CoE in nats")
        axes.legend(fontsize=8, loc="lower right")
