"""Changes the code in small ways, one after the other, and lists the changes that no test notices.

    python -m tools.mutation [MODULE...] [--sample N] [--jobs N] [--tests PATH...] [--write docs/mutation.md] [--kept]

A module is named below the package, such as `policy.settle`; without one it is all of `PACKAGES`. What
was found is kept in `mutants/results.jsonl`: rerun the same command to resume, or to test only what is new. The command
fails if a change survives without a reason in `explained.toml`.
"""

import argparse
import os
import random
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from tools.mutation.changes import Change, iter_changes
from tools.mutation.explanations import Explanations
from tools.mutation.results import Result, Results
from tools.mutation.run import KEPT, PACKAGE, path_of, run_changes
from tools.mutation.table import count_modules, list_explanations, write_between_markers

PACKAGES = ("actions", "decisions", "measurement", "middleware", "policy", "uncertainty")
MODULES = ("agents.requests.endings", "agents.requests.model_names", "graph.people")
"""What decides whether something is answered or runs: these packages, and these modules of others."""


def main() -> int:
    """Runs the command; returns its exit status."""
    options = _read_options()
    modules = options.modules or list(iter_modules())
    explanations = Explanations()
    changes = [
        change
        for module in modules
        for change in iter_changes(module, path_of(module).read_text("utf-8"), str(path_of(module)))
        if not explanations.is_wording(change)
    ]

    def has_reason(change: Change) -> bool:
        return explanations.find(change) is not None

    print(f"{len(changes)} changes of {len(modules)} modules", flush=True)
    if options.kept:
        return _conclude(_recall(changes), explanations, options.write, is_sample=False)
    if options.sample is not None and options.sample < len(changes):
        changes = random.Random(0).sample(changes, options.sample)
        print(f"a sample of {options.sample} of them", flush=True)
    changes.sort(key=has_reason)  # these come last: all their tests run
    try:
        found = run_changes(
            changes, tests=options.tests, jobs=options.jobs, report=_report, has_reason=has_reason
        )
    except KeyboardInterrupt:
        print("Stopped. Rerun the same command to resume.")
        return 130
    return _conclude(found, explanations, options.write, is_sample=options.sample is not None)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Lists small changes of the code that no test notices."
    )
    parser.add_argument(
        "modules",
        nargs="*",
        metavar="MODULE",
        help=f"such as policy.settle; else all of {(*PACKAGES, *MODULES)}",
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="only N of the changes, drawn at random with one seed",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="changes that are tested at once"
    )
    parser.add_argument(
        "--tests", nargs="+", default=[], metavar="PATH", help="tests, else those of the package"
    )
    parser.add_argument(
        "--write", type=Path, help="a page, to write the tables between its markers"
    )
    parser.add_argument(
        "--kept",
        action="store_true",
        help="test nothing: count what is kept, and what was not tried as what survives",
    )
    options = parser.parse_args()
    for module in options.modules:
        if not path_of(module).exists():
            parser.error(
                f"MODULE must be a module below {PACKAGE}, such as policy.settle; got {module}"
            )
    return options


def iter_modules() -> Sequence[str]:
    """Returns all modules that are changed: those of `PACKAGES`, and `MODULES`."""
    paths = (path for package in PACKAGES for path in sorted(Path(PACKAGE, package).rglob("*.py")))
    found = [
        ".".join(path.with_suffix("").parts[1:]) for path in paths if path.name != "__init__.py"
    ]
    return [*MODULES, *found]


def _recall(changes: Sequence[Change]) -> dict[Change, Result]:
    """Returns what earlier runs found; a change that none of them tried counts as one that survived."""
    results = Results(KEPT / "results.jsonl")
    found = {}
    for change in changes:
        result = results.get(change)
        if result is None or result.source != change.source:
            result = Result("survived", change.source, None, "", 0.0)
        found[change] = result
    return found


def _report(change: Change, result: Result, n_left: int) -> None:
    if not result.is_kill:
        print(f"{result.outcome}: {_line(change)}", flush=True)
        if result.outcome == "error":
            print(result.by)
    if n_left % 100 == 0:
        print(f"{n_left} left", flush=True)


def _line(change: Change) -> str:
    return f"{change.module}:{change.lines.start} {change.function}: {change.before} -> {change.after} ({change.kind})"


def _conclude(
    found: Mapping[Change, Result],
    explanations: Explanations,
    page: Path | None,
    *,
    is_sample: bool,
) -> int:
    survivors = [change for change, result in found.items() if not result.is_kill]
    unexplained = [change for change in survivors if explanations.find(change) is None]
    used = {explanations.find(change) for change in survivors}
    tested = {change.module for change in found}
    for each in explanations:
        if each.module in tested and each not in used and not is_sample:
            print(f"explains no survivor: {each.module} {each.function}: {each.pattern}")
    for change in survivors:
        if (explanation := explanations.find(change)) is not None:
            print(f"explained: {_line(change)}: {explanation.why}")
    for change in unexplained:
        print(f"NOT EXPLAINED: {_line(change)}")
    modules = count_modules(found, explanations)
    print(modules)
    if page is not None:
        reasons = list_explanations(each for each in explanations if each.module in tested)
        write_between_markers(page, f"On {date.today()}:\n\n{modules}\n\n{reasons}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
