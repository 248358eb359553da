"""Owns the command `compare`: what policies did with the same questions, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.inputs import create_setting, names_of, open_samples
from coe_agents.cli.options import (
    JsonOption,
    JudgingOptions,
    ResamplesOption,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.terminal import print_json, print_lines

if TYPE_CHECKING:
    from coe_agents.experiments.comparison import PolicyOutcomes
    from coe_agents.experiments.replay import ReplayedPolicy

    _Outcomes = tuple[list[PolicyOutcomes], dict[str, str], dict[str, Any], str | None]
    """What policies did, with which settings, how that is judged, in JSON, and a line on it, if it differs."""


@expand_options
def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that `coe-agents run` wrote, the first is the reference; with --policies saved responses."
        ),
    ],
    scoring: JudgingOptions,
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the table as CSV.")] = None,
    resamples: ResamplesOption = 1000,
    policies: Annotated[
        str | None,
        typer.Option(
            help="Configuration files, separated by commas: replays their policies on saved responses, without a model."
        ),
    ] = None,
) -> None:
    """Show coverage, risk, tokens and cost of policies side by side, with paired intervals of the differences.

    Runs are compared on the questions that they share. A replay takes saved responses for what agents would say: more
    samples while they last, and no debate; --clusterer and --correctness are for it.
    """
    from coe_agents.cli.display.tables import show_experiment
    from coe_agents.experiments.comparison import compare as compare_policies
    from coe_agents.experiments.comparison import in_words, to_experiment
    from coe_agents.experiments.experiment import write_to

    if policies is not None:
        outcomes, settings, judged, note = _replay(paths, policies, scoring)
    elif scoring == JudgingOptions():
        outcomes, settings, judged, note = _read_runs(paths)
    else:
        advice = 'runs are compared as they were judged: "run --correctness" names how. Omit it, or add --policies'
        raise typer.BadParameter(advice, param_hint="--clusterer and --correctness")
    comparison = compare_policies(outcomes, n_resamples=resamples, settings=settings)
    table = to_experiment(comparison)
    written = [] if out is None else write_to(table, out)
    if as_json:
        print_json({**comparison.to_json(), "judged": judged})
        return
    for line in in_words(comparison):
        print_lines(line)
    show_experiment(table, written)
    print_lines(note)


def _read_runs(paths: list[Path]) -> "_Outcomes":
    from coe_agents.evaluation.origin import in_words, origin_of, read_run
    from coe_agents.experiments.comparison import outcomes_of

    outcomes = []
    sources: dict[str, None] = {}
    judgings = {}
    for name, path in zip(names_of(paths), paths, strict=True):
        run = read_run(path)
        outcomes.append(outcomes_of(run, name=name))
        dataset = run.settings.get("dataset")
        source = str(dataset.get("source")) if isinstance(dataset, dict) else "not recorded"
        sources[source] = None
        judgings[name] = origin_of([path]).judging

    reference, *others = judgings.values()
    note = None
    if any(judging != reference for judging in others):
        each = "; ".join(f"{name}: {in_words(judging)}" for name, judging in judgings.items())
        note = f"The runs are judged in different ways: {each}."
    judged = {name: judging and judging.to_json() for name, judging in judgings.items()}
    return outcomes, {"questions": "; ".join(sources)}, judged, note


def _replay(paths: list[Path], policies: str, options: JudgingOptions) -> "_Outcomes":
    from coe_agents.evaluation.samples.reader import without_rulings
    from coe_agents.experiments.replay import load_saved, replay

    files = [Path(name.strip()) for name in policies.split(",") if name.strip()]
    if not files:
        raise typer.BadParameter("it must name at least one file", param_hint="--policies")
    names = names_of(files, of="file", option="--policies")
    replayed = [_policy_of(file, name) for file, name in zip(files, names, strict=True)]
    scoring = ScoringOptions(clusterer=options.clusterer, correctness=options.correctness)
    setting, judging = create_setting(scoring, paths)
    with open_samples(paths, options) as questions:
        saved = load_saved(without_rulings(questions), setting.clusterer)
        n_failed = len(questions) - len(saved)
    if not saved:
        raise typer.BadParameter("no question has a response", param_hint="'paths'")
    settings = {
        "samples": ", ".join(path.name for path in paths),
        "clusterer": type(setting.clusterer).__name__,
        "right": setting.criterion.name,
    }
    outcomes = [replay(saved, each, setting.criterion, n_failed=n_failed) for each in replayed]
    return outcomes, settings, judging.to_json(), judging.note()


def _policy_of(path: Path, name: str) -> "ReplayedPolicy":
    from coe_agents.config.build import create_policy, load_weights
    from coe_agents.config.schema import load_config
    from coe_agents.experiments.replay import ReplayedPolicy
    from coe_agents.policy.bounds import CostBudget
    from coe_agents.policy.fixed_rounds import rounds_of
    from coe_agents.policy.settle import Rules
    from coe_agents.rounds.strategies import Strategies

    config = load_config(path)
    graph = config.graph
    n_samples = {}
    weights = {}
    for agent in config.agents:
        n_samples[agent.name] = agent.n_samples if agent.temperature > 0 else 1
        weights[agent.name] = agent.weight
    weights.update(load_weights(config) or {})
    policy = create_policy(config)
    try:
        bounds = graph.bounds.change(max_rounds=rounds_of(policy, graph.max_rounds))
    except ValueError as error:
        raise config.fault(str(error), "graph", "max_rounds") from error
    cost_budget = None
    if graph.cost_budget is not None:
        cost_budget = CostBudget(graph.cost_budget, config.prices)
    return ReplayedPolicy(
        name=name.removesuffix(".toml"),
        policy=policy,
        n_samples=n_samples,
        weights=weights,
        rules=Rules(bounds=bounds, min_agents=graph.min_agents, cost_budget=cost_budget),
        strategies=Strategies(dict(graph.strategies)),
        weighting=graph.weighting,
        has_arbiter=config.escalation is not None,
        prices=config.prices,
    )
