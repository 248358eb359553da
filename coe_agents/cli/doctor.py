"""Owns the command `doctor`."""

import os
import sys
from typing import Annotated

import typer

from coe_agents.cli.inputs import load_quietly
from coe_agents.cli.options import ConfigOption, Exit, JsonOption, ModelsOption
from coe_agents.cli.terminal import print_json


def doctor(
    config: ConfigOption = None,
    models: ModelsOption = None,
    as_json: JsonOption = False,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for each agent, including the loading of its model.")
    ] = 60.0,
) -> None:
    """Call each agent once and test the clusterer on obvious cases; report what fails, and how to fix it.

    An agent whose temperature has no effect counts as a problem, unless its `on_greedy` says how its responses count.

    Exit status: 0 no problems, 1 problems found, 2 a mistake in the configuration.
    """
    settings = load_quietly(config, models)
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
