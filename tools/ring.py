"""Takes rooms of the ring away from a copy of the repository, and runs what is left.

    python -m tools.ring core     # all rooms at once: the core's tests, but the slow ones
    python -m tools.ring chosen   # all rooms at once: those tests of the core's that reach for a room
    python -m tools.ring each     # one room after the other: the rest is imported, and the command shows its help
    python -m tools.ring alone    # each room's own tests, with all other rooms taken away

A room is `coe_agents/ROOM`, with its tests, `tests/ROOM`, and with the examples, benchmarks and pages that name it, or
a command of its own. What else belongs to a room stands in the table below.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from coe_agents import _ring

ROOT = Path(__file__).parent.parent
FURTHER: dict[str, tuple[str, ...]] = {"serve": ("tests/clients", "tests/vllm")}
"""Tests elsewhere that go through a room."""
CHOSEN = (
    "tests/cli",
    "tests/config",
    "tests/decision",
    "tests/graph",
    "tests/test_docs.py",
    "tests/test_package.py",
)
OF_THE_WHOLE = (
    "test_links_into_the_repository_lead_somewhere",
    "test_the_reference_has_every_package_and_every_name_of_the_first",
    "test_every_benchmark_has_a_page_and_make_runs_it",
    "test_results_are_as_the_benchmark_wrote_them",
    "test_commands_and_their_options_exist",
    "test_what_a_gate_can_do_more_takes_five_statements_of_a_user",
)
"""Tests of the documentation as a whole, with the pages of all rooms."""
IMPORT_ALL = """
import importlib, os, pkgutil, sys
# once, not for each folder
import langchain.agents, langgraph.graph, math_verify, rich.console, scipy.stats, torch, typer, uvicorn
from transformers import AutoModelForCausalLM, GenerationMixin, PreTrainedModel
failed = 0
for folder in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        sys.path.insert(0, folder)
        import coe_agents
        assert coe_agents.__file__.startswith(folder)
        for module in pkgutil.walk_packages(coe_agents.__path__, "coe_agents."):
            if module.name != "coe_agents.__main__":
                importlib.import_module(module.name)
        sys.argv[1:] = ["--help"]
        sys.stdout = open(os.devnull, "w")
        from coe_agents.cli import main
        main()
    failed |= os.waitpid(child, 0)[1]
sys.exit(failed != 0)
"""
"""Imports what is left in each of some folders, and shows the help of its command."""
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=quick", "-m")
FAST = "not slow and not clients"


def main(*arguments: str) -> int:
    """Runs one of the modes; returns 0 if everything passed."""
    if len(arguments) != 1 or arguments[0] not in ("core", "chosen", "each", "alone"):
        print(__doc__)
        return 2
    [mode] = arguments
    if mode in ("core", "chosen"):
        with copy_without(_ring.ROOMS) as folder:
            leave_out = [f"--deselect=tests/test_docs.py::{name}" for name in OF_THE_WHOLE]
            paths = CHOSEN if mode == "chosen" else ("tests", "coe_agents")
            return report("the core", run(folder, *PYTEST, FAST, *leave_out, *paths))
    if mode == "each":
        with ExitStack() as copies:
            folders = [copies.enter_context(copy_without([room])) for room in _ring.ROOMS]
            return report(
                "without each of the rooms", run(ROOT, "-c", IMPORT_ALL, *map(str, folders))
            )
    failed = 0
    for room in _ring.ROOMS:
        with copy_without([other for other in _ring.ROOMS if other != room]) as folder:
            code = run(folder, *PYTEST, FAST, f"tests/{room}", f"coe_agents/{room}")
            failed += report(f"{room} alone", code)
    return min(failed, 1)


@contextmanager
def copy_without(rooms: Collection[str]) -> Iterator[Path]:
    """Yields a copy of the repository from which rooms were taken away, with all that belongs to them."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, copy / name)
        for room in rooms:
            take_away(copy, room)
        yield copy


def take_away(copy: Path, room: str) -> None:
    """Removes a room from a copy, with its tests, and with what names it."""
    for name in (f"coe_agents/{room}", f"tests/{room}", *FURTHER.get(room, ())):
        path = copy / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    commands = [name for name, of in _ring.COMMANDS.items() if of.startswith(f"{room}.")]
    names = [rf"coe_agents\.{room}", *(rf"coe-agents {name}" for name in commands)]
    names_it = re.compile(rf"(?:{'|'.join(names)})\b")
    for folder in ("benchmarks", "docs", "examples"):
        for path in (copy / folder).rglob("*"):
            is_text = path.suffix in (".md", ".py", ".toml")
            if is_text and "results" not in path.parts and names_it.search(path.read_text("utf-8")):
                path.unlink()


def run(folder: Path, *arguments: str) -> int:
    """Runs Python in a copy; returns its exit status."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    environment.pop("COE_REQUIRE_ALL_DEPS", None)  # tests that need a room are skipped there
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def report(what: str, code: int) -> int:
    """Prints whether something passed; returns 1 if it did not."""
    print(f"{what}: {'passed' if code == 0 else 'FAILED'}", flush=True)
    return int(code != 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
