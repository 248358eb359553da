"""Owns the page of runs: its parts, put together. See `coe_agents.evaluation.html.render` for what it may do."""

from collections import Counter
from collections.abc import Sequence

from coe_agents._plurals import quantity
from coe_agents.evaluation.decisions import Run
from coe_agents.evaluation.html.render import check_jinja, read_parts, render
from coe_agents.evaluation.html.rows import pack
from coe_agents.experiments.comparison import compare, in_words, outcomes_of, to_experiment
from coe_agents.experiments.html.rows import ABSENT, RunRows
from coe_agents.experiments.output import format_cell

_PACKAGE = __name__.rpartition(".")[0]
_SCRIPT = ("rounds.js", "decisions.js", "run.js")


def create_run_page(
    runs: Sequence[Run], *, title: str, names: Sequence[str] | None = None, n_resamples: int = 1000
) -> str:
    """Returns the page of one run, or of two side by side, HTML in one piece; it may hold lone surrogates.

    Args:
        runs: One or two, from `coe_agents.evaluation.decisions.read_run`. The first of two is the reference.
        title: The heading.
        names: What the runs are called, all different; their folders' names unless given.
        n_resamples: Of the bootstrap behind every interval.

    Raises:
        ImportError: Jinja is not installed.
        ValueError: If there is neither one run nor two, or one of them decided no question.
    """
    if not 1 <= len(runs) <= 2:
        raise ValueError(f'"runs" must hold one run or two; got {len(runs)}. Compare two at a time')
    check_jinja()
    called = [run.name for run in runs] if names is None else list(names)
    comparison = compare(
        [outcomes_of(run, name=name) for run, name in zip(runs, called, strict=True)],
        n_resamples=n_resamples,
    )
    rows = RunRows(runs, called)
    table = to_experiment(comparison)
    facts = in_words(comparison)
    if len(runs) == 2:
        facts += describe_changes(rows.states(0), rows.states(1), called)
    return render(
        read_parts(["run.html"], package=_PACKAGE),
        style=read_parts(["page.css"]) + read_parts(["run.css"], package=_PACKAGE),
        script=read_parts(["base.js", "table.js", "theme.js"]) + read_parts(_SCRIPT, package=_PACKAGE),
        title=title,
        topic="decisions of a group of models",
        names=called,
        facts=facts,
        heads=table.heads,
        lines=[[format_cell(cell) for cell in line] for line in table.lines()],
        notes=table.notes,
        overview=pack(rows.overview()),
        blocks=rows.blocks(),
    )


def describe_changes(before: Sequence[str], after: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns plain sentences on what became of the questions of both runs.

    >>> describe_changes(["right", "wrong", "right"], ["refused", "right", "right"], ["a", "b"])[0]
    'The outcome differs in 2 of the 3 questions of both: wrong → right 1, right → refused 1.'
    """
    both = [pair for pair in zip(before, after, strict=True) if ABSENT not in pair]
    if not both:
        return ["The two runs share no question."]
    changed = Counter(pair for pair in both if pair[0] != pair[1])
    ranked = sorted(changed.items(), key=lambda item: (-item[1], item[0][0] != "wrong", item[0]))
    listed = ", ".join(f"{old} → {new} {n}" for (old, new), n in ranked)
    said = f"The outcome differs in {sum(changed.values())} of the {quantity(len(both), 'question')} of both"
    sentences = [f"{said}: {listed}." if listed else f"{said}."]
    n_only = [list(states).count(ABSENT) for states in (after, before)]  # each question is in one of the runs
    if any(n_only):
        sentences.append(
            f"{quantity(n_only[0], 'question is', 'questions are')} in {names[0]} only, {n_only[1]} in {names[1]} only."
        )
    return sentences
