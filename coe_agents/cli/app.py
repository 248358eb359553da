"""Owns the command as a whole: its sub-commands and its handling of errors.

A command imports slow packages when it runs, so that `--help` is fast.
"""

import atexit
import gc
import io
import os
import sqlite3
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import coe_agents
from coe_agents import _ring
from coe_agents.cli.ask import EPILOG, ask, demo
from coe_agents.cli.calibrate import calibrate
from coe_agents.cli.compare import compare
from coe_agents.cli.config import config_app, doctor
from coe_agents.cli.drift import DRIFT_EPILOG, drift
from coe_agents.cli.options import Exit
from coe_agents.cli.sample import RUN_EPILOG, SAMPLE_EPILOG, evaluate, run, sample
from coe_agents.cli.score import score
from coe_agents.cli.terminal import ending_soon, print_lines, show_warnings


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        print_lines(f"coe-agents {coe_agents.__version__}")
        raise typer.Exit


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            # typer hands on pydantic's words
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="coe-agents",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # "rich" would read "[clusterer]" as markup and drop it
)


@app.callback()
def main_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """Ask several language models at once, and answer only when they agree: when Collaborative Entropy is low."""


def _lacking(error: ImportError) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def _add_from_ring(*names: str) -> None:
    """Adds commands of the ring; one that lacks a package, or whose room was taken away, says so when it is called."""
    for name in names:
        reference = _ring.COMMANDS[name]
        epilog = SAMPLE_EPILOG if name == "reproduce" else None
        try:
            app.command(name, epilog=epilog)(_ring.load(reference))
        except ImportError as error:
            takes_all = {"allow_extra_args": True, "ignore_unknown_options": True}
            app.command(
                name,
                help=f"Not installed: {error}.",
                hidden=not _ring.is_there(reference),
                context_settings=takes_all,
            )(_lacking(error))


app.command(epilog=EPILOG)(ask)
app.command()(demo)
app.command()(doctor)
app.command("sample", epilog=SAMPLE_EPILOG)(sample)
app.command(epilog=RUN_EPILOG)(run)
app.command()(compare)
app.command("score")(score)
app.command(epilog=SAMPLE_EPILOG)(evaluate)
_add_from_ring("report")
app.command()(calibrate)
_add_from_ring("weights", "advise")
app.command(epilog=DRIFT_EPILOG)(drift)
_add_from_ring("audit", "harvest", "reproduce", "serve")
app.add_typer(config_app, name="config")


def _hide_bars_of_libraries() -> None:
    """Hides the bars of libraries that load models: our own progress says what is loaded, and a file gets none of it.

    The variables are read when the libraries are imported, which is later.
    """
    # of huggingface_hub and transformers
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # of whoever uses tqdm directly, as transformers does for a GGUF file
    os.environ.setdefault("TQDM_DISABLE", "1")


def main() -> None:
    """Runs the command; an error becomes one message on standard error, and so does a warning."""
    from coe_agents.errors import CoEError, ConfigurationError, DatasetError, SamplesError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a character that the terminal cannot encode must not lose the answer
            stream.reconfigure(errors="replace")
    show_warnings()
    # torch and the like make half a million objects that stay: to visit them after each 700 new ones, Python's default,
    # takes a fifth of `ask`'s time. At the end the process frees them anyway
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    _hide_bars_of_libraries()
    try:
        with ending_soon():
            app()
    except (ConfigurationError, DatasetError, SamplesError) as error:
        print_lines(f"coe-agents: {error}", to_stderr=True)
        sys.exit(Exit.FAILED if error.retryable else Exit.USAGE)  # the hub may be reachable later
    # a full disk is SQLite's own error
    except (CoEError, ImportError, ValueError, OSError, sqlite3.Error) as error:
        print_lines(f"coe-agents: {type(error).__name__}: {error}", to_stderr=True)
        sys.exit(Exit.FAILED)
