"""Owns the command `doctor`."""

import json
import os
import sys
from typing import Annotated

import typer

from coe_agents.cli.ask import load_quietly
from coe_agents.cli.options import ConfigOption, Exit, JsonOption


def doctor(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that each agent has, loading included.")] = 60.0,
) -> None:
    """Call each agent once, and what clusters on obvious cases: what works, what does not, and what to do.

    An agent whose temperature has no effect is broken, too, unless its `on_greedy` says how its responses count.

    Exit status: 0 nothing is broken, 1 something needed is, 2 a mistake in the configuration.
    """
    settings = load_quietly(config)
    from coe_agents.cli.examination import examine

    examination = examine(settings, timeout=timeout)
    if as_json:
        print(json.dumps(examination.to_json()))
    else:
        from coe_agents.cli.tables import show_examination

        show_examination(examination)
    code = Exit.FAILED if examination.problems else Exit.ANSWERED
    if examination.late:
        # a thread in a model's native code would crash an orderly exit, or hold it up
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise typer.Exit(code)
