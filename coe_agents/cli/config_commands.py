"""Owns the commands on configuration files: `config init` and `config check`."""

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from coe_agents.cli.options import Exit

EXAMPLE = "coe.toml"

config_app = typer.Typer(help="Write or check a configuration file.", no_args_is_help=True, rich_markup_mode="markdown")


@config_app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path(EXAMPLE),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a commented example: a local model, one that vLLM serves, one behind an API."""
    from coe_agents.errors import ConfigurationError

    text = resources.files("coe_agents.cli").joinpath(EXAMPLE).read_text(encoding="utf-8")
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigurationError(f"{path} is there already", hint="Choose another path, or pass --force") from error
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}", hint="Choose another path") from error
    print(f"Wrote {path}. Edit it, then:")
    print(f"  coe-agents config check {path}")
    print(f"  coe-agents doctor --config {path}")


@config_app.command(epilog=f"Exit status: {Exit.ANSWERED} valid, {Exit.USAGE} not.")
def check(file: Annotated[Path, typer.Argument(help="The TOML file.")]) -> None:
    """Check a file without calling anybody or loading a model, and say how it was understood."""
    from coe_agents.cli.checks import check as check_config
    from coe_agents.cli.config import load_config
    from coe_agents.cli.tables import show_config

    config = load_config(file)
    notes = check_config(config)
    show_config(config, notes, path=str(file))
