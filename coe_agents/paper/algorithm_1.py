"""Owns Algorithm 1 over a group of questions, and the experiments on it.

They are `epsilon` (fig:4), `sampling` (fig:5) and `divergences` (fig:6).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

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
    run = partial(coordinate, divergence=divergence, epsilon=epsilon, solver=solver)
    found = [
        run(each.distributions, max_iterations=MAX_ITERATIONS[solver]) for each in group.statistics
    ]
    means = (ensemble_mean(each.distributions, weights=each.weights) for each in found)
    leading = [np.flatnonzero(shares_lead(mean)).tolist() for mean in means]
    judged = judge_clusters(zip(group.statistics, leading, strict=True), setup.criterion)
    shares = [mean_verdict(verdicts) or 0.0 for _, verdicts in judged]
    figures = [
        (
            it.initial_coe,
            it.coe,
            it.n_iterations,
            it.converged,
            it.coe > it.initial_coe + 1e-9,
            right,
        )
        for it, right in zip(found, shares, strict=True)
    ]
    return CoordinatedGroup(*np.mean(figures, axis=0).tolist())


_EPSILONS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_EPSILON_DRAWN = ("iterations", "accuracy", "final CoE")
_EPSILON_COLUMNS = ("solver", "epsilon", *_EPSILON_DRAWN, "converged")


def epsilon(
    questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup
) -> Experiment:
    """Returns iterations, accuracy and final CoE of the first two agents at five thresholds, by two solvers."""
    group = judge_group(questions, agents[:2], setup)
    rows: list[Row] = []
    for solver in SOLVERS:
        for threshold in _EPSILONS:
            found = coordinate_group(group, setup, solver=solver, epsilon=threshold)
            rows.append(
                (
                    solver,
                    f"{threshold:.0e}",
                    found.n_iterations,
                    found.accuracy,
                    found.after,
                    found.converged,
                )
            )
    paper = paper_rows("epsilon", _EPSILON_COLUMNS)

    def draw(figure: Figure) -> None:
        for axes, column in zip(
            figure.subplots(1, len(_EPSILON_DRAWN)), _EPSILON_DRAWN, strict=True
        ):
            place = _EPSILON_COLUMNS.index(column)
            for solver, marker in zip(SOLVERS, ("o-", "s--"), strict=True):
                own = [row for row in rows if row[0] == solver]
                axes.plot(
                    [str(row[1]) for row in own], [row[place] for row in own], marker, label=solver
                )
            theirs = [(str(row[1]), row[place]) for row in paper if isinstance(row[place], float)]
            if theirs:
                axes.plot(*zip(*theirs, strict=True), "D:", color="tab:red", label="the paper's")
            else:
                axes.axhspan(
                    *band(paper[0][place]), color="tab:red", alpha=0.2, label="the paper's"
                )
            axes.set(xlabel="epsilon", ylim=(0, None if theirs else 1))
            axes.set_title(column, fontsize=10)
            axes.legend(fontsize=8)

    return create_experiment(
        name="epsilon",
        title="Algorithm 1 at several thresholds of convergence",
        columns=_EPSILON_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        draw=draw,
        settings={
            "group": f"{' + '.join(agents[:2])}, {group.size}",
            "iterations": ", ".join(
                f"{solver} at most {MAX_ITERATIONS[solver]}" for solver in SOLVERS
            ),
        },
        notes=(
            "Means over the questions. greedy is the algorithm as printed: it converges at its second iteration.",
            "The literal algorithm's CoE of two models ends at 0 or log 2 = 0.693, so a mean of 0.88 is out of reach.",
        ),
        width=12.0,
        height=4.5,
    )


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
    group = judge_group(questions, agents[:2], setup)
    before = float(group.correct.mean())
    rows: list[Row] = []
    for solver in SOLVERS:
        for divergence in _DIVERGENCES:
            found = coordinate_group(group, setup, solver=solver, divergence=divergence)
            gain = found.accuracy - before
            rows.append(
                (
                    solver,
                    divergence,
                    found.before,
                    found.after,
                    found.risen,
                    before,
                    found.accuracy,
                    gain,
                )
            )
    paper = paper_rows("divergences", _DIVERGENCE_COLUMNS)

    def draw(figure: Figure) -> None:
        for axes, solver in zip(
            figure.subplots(1, len(SOLVERS), sharey=True), SOLVERS, strict=True
        ):
            own = [row for row in rows if row[0] == solver]
            for shift, column, colour in (
                (-0.2, "CoE before", "lightsteelblue"),
                (0.2, "CoE after", "tab:blue"),
            ):
                heights = [row[_DIVERGENCE_COLUMNS.index(column)] for row in own]
                axes.bar(
                    [place + shift for place in range(len(own))],
                    heights,
                    0.38,
                    color=colour,
                    label=column,
                )
            for place, row in enumerate(own):
                theirs = [each[-1] for each in paper if each[:2] == row[:2]]
                text = f"gain {row[-1]:+.1%}" + "".join(f"\npaper {value:+.1%}" for value in theirs)
                top = 1.02 * max(float(row[2] or 0), float(row[3] or 0))
                axes.text(place, top, text, ha="center", va="bottom", fontsize=8)
            axes.set_xticks(range(len(own)), [row[1] for row in own])
            axes.set_title(f"solver: {solver}", fontsize=10)
            axes.margins(y=0.25)
            axes.legend(fontsize=8, loc="upper right", ncols=2)
        figure.axes[0].set_ylabel("CoE, mean over the questions")

    return create_experiment(
        name="divergences",
        title="CoE before and after Algorithm 1, and the gain in accuracy",
        columns=_DIVERGENCE_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        draw=draw,
        settings={"group": f"{' + '.join(agents[:2])}, {group.size}"},
        notes=(
            "Where the literal algorithm (greedy) ends does not depend on the divergence: its four gains are equal.",
            "Values of CoE under different divergences are on different scales.",
        ),
        width=11.0,
    )


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
    """

    def row(varied: str, value: Cell, group: JudgedGroup) -> Row:
        accuracies = (
            float(group.correct.mean()),
            coordinate_group(group, setup, solver="greedy").accuracy,
        )
        means = group.means("coe", "aleatoric", "epistemic")
        return (varied, value, *accuracies, *means, plain(group.auroc("coe")), group.n_ties)

    two = list(agents[:2])
    rows: list[Row] = [
        row("temperature", value, judge_group(asked, two, setup))
        for value, asked in sorted(by_temperature.items())
    ]
    counts = (
        Counter(response["agent"] for response in question.responses) for question in questions
    )
    most = min((n for count in counts for name, n in count.items() if name in two), default=0)
    rows += [
        row("generations", n, judge_group(questions, two, setup, n_samples=n))
        for n in GENERATIONS
        if n <= most
    ]
    paper = paper_rows("sampling", _SAMPLING_COLUMNS)

    def draw(figure: Figure) -> None:
        kinds = list(dict.fromkeys(row[0] for row in rows))
        for axes, varied in zip(
            figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True
        ):
            own = [row for row in rows if row[0] == varied]
            values = [row[1] for row in own]
            for column, marker in zip(_SAMPLING_DRAWN, ("o-", "s--", "v-", "k^-"), strict=True):
                heights = [row[_SAMPLING_COLUMNS.index(column)] for row in own]
                axes.plot(
                    values,
                    [float("nan") if h is None else h for h in heights],
                    marker,
                    label=column,
                )
            theirs = [
                (row[1], row[3]) for row in paper if row[0] == varied and isinstance(row[3], float)
            ]
            if theirs:
                axes.plot(
                    *zip(*theirs, strict=True), "D:", color="tab:red", label="paper's accuracy"
                )
            else:
                bands = [(row[1], *band(row[3])) for row in paper if row[0] == varied]
                axes.fill_between(
                    *zip(*bands, strict=True), color="tab:red", alpha=0.4, label="paper's accuracy"
                )
            axes.set(
                xlabel=varied, xticks=values, ylabel="accuracy, AUROC; CoE in nats", ylim=(0, 1.05)
            )
            axes.legend(fontsize=8, loc="lower right")

    return create_experiment(
        name="sampling",
        title="Sampling temperature and number of generations",
        columns=_SAMPLING_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        draw=draw,
        settings={"group": " + ".join(two), "algorithm": "greedy, the literal one, epsilon 1e-6"},
        notes=(
            "Accuracy before is that of the group's answer, after that of Algorithm 1's.",
            "Fewer generations are the first of the same responses.",
            *(
                ()
                if by_temperature
                else ("Temperatures need models to ask; saved samples have one.",)
            ),
        ),
        width=11.0,
        height=4.8,
    )
