"""Owns the command `reproduce`: the tables and figures of the paper, from responses sampled once."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coe_agents.cli.options import ConfigOption, LimitOption, SeedOption
from coe_agents.cli.terminal import create_console, print_lines
from coe_agents.errors import ConfigurationError
from coe_agents.extensions import did_you_mean

if TYPE_CHECKING:
    from coe_agents.experiments.experiment import Experiment
    from coe_agents.paper.material import Material

NAMES = (
    "all",
    "model-accuracy",
    "selective-prediction",
    "triviaqa",
    "squad",
    "epsilon",
    "sampling",
    "divergences",
)
_OF_TWO = ("selective-prediction", "epsilon", "sampling", "divergences")


def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{', '.join(NAMES[1:])}, or all of them.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for tables, figures and stored responses.")
    ] = Path("reproduced"),
    config: ConfigOption = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="As for sample, at most two; default: tinyworld, or triviaqa and squad with --config."
        ),
    ] = None,
    samples: Annotated[
        list[Path] | None,
        typer.Option(
            help="Files of saved responses to use instead of asking agents. May be given several times."
        ),
    ] = None,
    agents: Annotated[
        str | None,
        typer.Option(
            help="Agents of the saved responses, comma-separated, in the order in which they join a group; default: "
            "an order that does not depend on their names."
        ),
    ] = None,
    limit: LimitOption = 200,
    seed: SeedOption = 0,
) -> None:
    """Reproduce a table or figure of the paper next to the published numbers, as CSV and as a picture."""
    if name not in NAMES:
        near = did_you_mean(name, NAMES)
        raise typer.BadParameter(f"{name!r} is no experiment. {near}".rstrip(), param_hint="'NAME'")
    if samples and dataset:
        message = "it cannot be combined with --dataset. Omit one of them"
        raise typer.BadParameter(message, param_hint="--samples")
    if agents and not samples:
        message = 'it requires "--samples". Omit it to use the agents of the configuration'
        raise typer.BadParameter(message, param_hint="--agents")
    n_datasets = len(dataset or ())
    if n_datasets > 2:
        message = f"at most two can be given; got {n_datasets}. Omit the others"
        raise typer.BadParameter(message, param_hint="--dataset")

    # slow to import: mistakes above are reported first
    from coe_agents.paper.material import create_sampled_material, read_saved_material

    if samples:
        chosen = tuple(agents.split(",")) if agents else None
        material: Material = read_saved_material(samples, chosen, config=config)
    else:
        material = create_sampled_material(config, dataset, out / "runs", limit=limit, seed=seed)
    from coe_agents.experiments.experiment import write_to
    from coe_agents.experiments.tables import show_experiment

    names = _all_of(material) if name == "all" else [name]
    for name_of_experiment in names:
        experiment = _experiment(name_of_experiment, material)
        settings = {**experiment.settings, **material.provenance}
        experiment = replace(experiment, settings=settings)
        show_experiment(create_console(), experiment, write_to(experiment, out))


def _all_of(material: "Material") -> list[str]:
    names: list[str] = [name for name in NAMES if name != "all" and name not in material.left_out]
    for name, why in material.left_out.items():
        print_lines(f"Skipped {name}: {why}")
    if len(material.agents) < 2:
        print_lines(f"Skipped {', '.join(_OF_TWO)}: they need two agents")
        names = [name for name in names if name not in _OF_TWO]
    return names


def _experiment(name: str, material: "Material") -> "Experiment":
    from coe_agents.paper import algorithm_1, ranking

    agents = material.agents
    setting = material.setting
    if name in _OF_TWO and len(agents) < 2:
        raise ConfigurationError(
            f"{name} needs two agents; got {agents[0]} alone",
            hint="Pass samples, or a configuration, of two",
        )

    def of_all_metrics(place: int, dataset: str) -> "Experiment":
        source, questions = material.panel(place)
        replaced = "" if source.startswith(name) else f", in place of {dataset}"
        title = f"All metrics, from one model to six: {source}{replaced}"
        return ranking.panels(name, title, questions, agents, setting, twins=material.twins)

    match name:
        case "model-accuracy":
            datasets = {}
            for dataset, (train, validation) in material.datasets.items():
                datasets[dataset] = (None if train is None else train(), validation())
            return ranking.model_accuracy(datasets, agents, setting)
        case "selective-prediction":
            return ranking.selective_prediction(material.main, agents, setting)
        case "triviaqa":
            return of_all_metrics(0, "TriviaQA")
        case "squad":
            return of_all_metrics(1, "SQuAD")
        case "epsilon":
            return algorithm_1.epsilon(material.main, agents, setting)
        case "sampling":
            temperatures = {value: load() for value, load in material.temperatures.items()}
            return algorithm_1.sampling(temperatures, material.main, agents, setting)
        case _:
            return algorithm_1.divergences(material.main, agents, setting)
