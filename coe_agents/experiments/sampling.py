"""Owns the experiment `sampling`: what temperature and the number of generations change (fig:5)."""

from collections import Counter
from collections.abc import Mapping, Sequence

from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.experiments.coordination import coordinate_group
from coe_agents.experiments.experiment import Cell, Experiment, Figure, Row, band, paper_label, paper_rows, plain
from coe_agents.experiments.groups import JudgedGroup, judge_group

GENERATIONS = (4, 5, 6, 7, 8)
_NAME = "sampling"
_DRAWN = ("accuracy before", "accuracy after", "AUROC of CoE", "CoE")
_COLUMNS = ("varied", "value", "accuracy before", "accuracy after", "CoE", "U_A", "U_E", "AUROC of CoE", "ties")


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
        accuracies = float(group.correct.mean()), coordinate_group(group, setup, solver="greedy").accuracy
        means = group.means("coe", "aleatoric", "epistemic")
        return (varied, value, *accuracies, *means, plain(group.auroc("coe")), group.n_ties)

    two = list(agents[:2])
    rows: list[Row] = [
        row("temperature", value, judge_group(asked, two, setup)) for value, asked in sorted(by_temperature.items())
    ]
    most = _fewest_responses(questions, two)
    rows += [row("generations", n, judge_group(questions, two, setup, n_samples=n)) for n in GENERATIONS if n <= most]
    paper = paper_rows(_NAME, _COLUMNS)

    def draw(figure: Figure) -> None:
        kinds = list(dict.fromkeys(row[0] for row in rows))
        for axes, varied in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
            own = [row for row in rows if row[0] == varied]
            values = [row[1] for row in own]
            for column, marker in zip(_DRAWN, ("o-", "s--", "v-", "k^-"), strict=True):
                heights = [row[_COLUMNS.index(column)] for row in own]
                axes.plot(values, [float("nan") if h is None else h for h in heights], marker, label=column)
            theirs = [(row[1], row[3]) for row in paper if row[0] == varied and isinstance(row[3], float)]
            if theirs:
                axes.plot(*zip(*theirs, strict=True), "D:", color="tab:red", label="paper's accuracy")
            else:
                bands = [(row[1], *band(row[3])) for row in paper if row[0] == varied]
                axes.fill_between(*zip(*bands, strict=True), color="tab:red", alpha=0.4, label="paper's accuracy")
            axes.set(xlabel=varied, xticks=values, ylabel="accuracy, AUROC; CoE in nats", ylim=(0, 1.05))
            axes.legend(fontsize=8, loc="lower right")

    return Experiment(
        name=_NAME,
        title="Sampling temperature and number of generations",
        columns=_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        paper=paper,
        label=paper_label(_NAME),
        draw=draw,
        settings={"group": " + ".join(two), "algorithm": "greedy, the literal one, epsilon 1e-6"},
        notes=(
            "Accuracy before is that of the group's answer, after that of Algorithm 1's.",
            "Fewer generations are the first of the same responses.",
            *(() if by_temperature else ("Temperatures need models to ask; saved samples have one.",)),
        ),
        width=11.0,
        height=4.8,
    )


def _fewest_responses(questions: Sequence[SampledQuestion], agents: Sequence[str]) -> int:
    """The number of responses that every agent has for every question to which it responded."""
    counts = (Counter(response["agent"] for response in question.responses) for question in questions)
    return min((n for count in counts for name, n in count.items() if name in agents), default=0)
