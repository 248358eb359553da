"""Owns the commands on a configuration: `config init`, `config check` and `doctor`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from coe_agents.cli.inputs import load_named, models_to_toml_of
from coe_agents.cli.options import ConfigOption, Exit, JsonOption, ModelOptions, expand_options
from coe_agents.cli.terminal import hide, print_json, print_lines

config_app = typer.Typer(
    help="Write or check a configuration file.", no_args_is_help=True, rich_markup_mode="markdown"
)


@config_app.command()
@expand_options
def init(
    named: ModelOptions,
    file: Annotated[
        Path | None, typer.Argument(help="Where to write it; default: coe.toml.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The same as FILE.")] = None,
) -> None:
    """Write a file for the models that are named, or for two small ones of the hub.

    Models of openai are asked at OPENAI_BASE_URL, where it is set.
    """
    from coe_agents.errors import ConfigurationError

    if file and out:
        raise typer.BadParameter(
            "it cannot be combined with FILE. Omit one of them", param_hint="--out"
        )
    path = out or file or Path("coe.toml")
    text = models_to_toml_of(named)
    try:
        with path.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise ConfigurationError(f"{path} already exists", hint="Choose another path") from error
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error}", hint="Choose another path"
        ) from error
    print_lines(f"Wrote {path}. Edit it, then:")
    print_lines(f"  coe-agents config check {path}")
    print_lines(f"  coe-agents doctor --config {path}")


@config_app.command(epilog=f"Exit status: {Exit.ANSWERED} valid, {Exit.USAGE} invalid.")
def check(file: Annotated[Path, typer.Argument(help="The TOML file.")]) -> None:
    """Validate a file and show its settings. No model is called or loaded, but code that the file names is imported."""
    from coe_agents.cli.display.settings import show_config
    from coe_agents.config.schema import load_config
    from coe_agents.config.validation import check as check_config

    config = load_config(file)
    hide(config.secrets)
    notes = check_config(config)
    show_config(config, notes, path=str(file))


@expand_options
def doctor(
    named: ModelOptions,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds for each agent, including the loading of its model."),
    ] = 60.0,
) -> None:
    """Call each agent once and test the clusterer on obvious cases; report what fails, and how to fix it.

    An agent whose temperature has no effect counts as a problem, unless its `on_greedy` says how its responses count.

    Exit status: 0 no problems, 1 problems found, 2 a mistake in the configuration.
    """
    settings = load_named(config, named)
    from coe_agents.doctor.diagnosis import examine

    examination = examine(settings, timeout=timeout)
    if as_json:
        print_json(examination.to_json())
    else:
        from coe_agents.cli.display.settings import show_examination

        show_examination(examination)
    code = Exit.FAILED if examination.problems else Exit.ANSWERED
    if examination.late:
        # a thread in a model's native code would crash or delay an orderly exit
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise typer.Exit(code)
