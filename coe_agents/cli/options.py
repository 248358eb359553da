"""Owns what the commands share: the exit codes and the option `--config`."""

from enum import IntEnum
from pathlib import Path
from typing import Annotated

import typer


class Exit(IntEnum):
    """What the exit status says."""

    ANSWERED = 0
    FAILED = 1
    USAGE = 2  # as typer has it
    ABSTAINED = 3
    ESCALATED = 4


ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="TOML file naming agents, clusterer and policy; default: tinyworld."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="Show on standard error how the run goes on.")]
