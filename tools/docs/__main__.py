"""Writes the output of commands and examples, and the reference, into the pages, so that a forge shows them whole.

    python -m tools.docs [--check] [PAGE ...]

A page says in comments what stands below them, as Cog (https://cog.readthedocs.io) reads it:

    <!--{{ run('coe-agents ask "What is the capital of France?"') }}-->
    <!--end-->

The functions for it are those of `tools.docs.blocks` and `tools.docs.reference`. With `--check` nothing is written: the
exit status is not 0, and the difference is shown, if a page is out of date.
"""

import argparse
import sys
from pathlib import Path

from cogapp import Cog

from tools.docs.blocks import ROOT, WRITING

PROLOGUE = "from tools.docs.blocks import *; from tools.docs.reference import *"
MARKERS = "<!--{{ }}--> <!--end-->"
ADVICE = "Write them anew with `make docs-write`, and commit what changed"


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks the pages that are named, or all; returns 0 if they are up to date."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs")
    parser.add_argument(
        "--check", action="store_true", help="write nothing, show what would change"
    )
    parser.add_argument("pages", nargs="*", type=Path, help="by default all that have such blocks")
    options = parser.parse_args(arguments)
    pages = options.pages or [
        page for page in markdown_pages() if "<!--{{" in page.read_text("utf-8")
    ]
    options_of_cog = ["cog", "-P", "-n", "utf-8", "--verbosity=1", "-p", PROLOGUE]
    options_of_cog.append(f"--markers={MARKERS}")
    if options.check:
        options_of_cog += ["--check", "--diff", f"--check-fail-msg={ADVICE}"]
    else:
        options_of_cog.append("-r")
    with WRITING.begin(is_check=options.check):
        status: int = Cog().main([*options_of_cog, *map(str, pages)])
    return status


def markdown_pages() -> list[Path]:
    """Returns README.md and the pages of docs/, quick ones first."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
    return [ROOT / "README.md", *sorted(pages)]


if __name__ == "__main__":
    sys.exit(main())
