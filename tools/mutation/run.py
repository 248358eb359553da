"""Runs the tests that reach a change, for each change in a process of its own.

One process imports everything and collects the tests once. For each change it forks a child, which exchanges the code
of one function and runs tests until one fails. So a change costs a fork and the tests that notice it, most often one.
"""

import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tools.mutation.changes import Change
from tools.mutation.reach import Reach, digest_of, load_reach, record_reach
from tools.mutation.results import Outcome, Result, Results

PACKAGE = "coe_agents"
KEPT = Path("mutants")
_OF_DECISIONS = (
    "tests/measurement/",
    "tests/policy/",
    "tests/decision/",
    "tests/rounds/",
    "tests/graph/",
    "tests/evaluation/",
    "tests/experiments/",
    "tests/config/",
    "tests/test_one_decision.py",
)
TESTS = {
    "actions": (
        "tests/actions/",
        "tests/middleware/",
        "tests/agents/test_proposals.py",
        "tests/graph/test_actions.py",
        "tests/evaluation/scoring/test_proposals.py",
        "tests/serve/test_structured.py",
    ),
    "agents": ("tests/agents/", "tests/middleware/"),
    "graph": ("tests/graph/", "tests/middleware/", "tests/rulings/"),
    "measurement": _OF_DECISIONS,
    "middleware": (
        "tests/middleware/",
        "tests/config/test_council_section.py",
        "tests/rulings/test_observed.py",
    ),
    "policy": _OF_DECISIONS,
    "uncertainty": ("tests/uncertainty/", "tests/measurement/", "tests/policy/"),
}
"""The tests of a package that others test, too: proposals, measurements and bounds by what asks for them."""
NOT_RUN = (
    # a state machine attacks the gates at random: it would find nearly everything, after minutes
    "--ignore=tests/middleware/test_gate_machine.py",
    "--deselect=tests/middleware/test_equality.py::test_the_work_grows_with_the_number_of_arguments",  # counts time
    "--deselect=tests/uncertainty/test_uncertainty_package.py::test_a_fresh_interpreter_loads_nothing_heavy",
)
ARGUMENTS = (
    *(
        "-qq",
        "--no-header",
        "--no-summary",
        "--tb=native",  # pytest's own form reads the source of each frame, which takes longer than most tests
        "-s",
        "-m",
        "not slow and not clients",
        "--hypothesis-profile=mutation",
    ),
    *("-p", "no:cacheprovider", "-p", "no:xdist"),
)
SURVIVED, KILLED, FAILED = 0, 1, 2
OUTCOMES: dict[int, Outcome] = {SURVIVED: "survived", KILLED: "killed", FAILED: "error"}
"""What the exit status of a child says: all tests passed, one failed, or the change could not be made."""


def path_of(module: str) -> Path:
    """Returns the file of a module of the package, such as "policy.settle"."""
    return Path(PACKAGE, *module.split(".")).with_suffix(".py").resolve()


def tests_of(module: str) -> Sequence[str]:
    """Returns the folders and files of tests that are to notice a change of a module; the package's doctests, too."""
    package = module.split(".", maxsplit=1)[0]
    tests = TESTS.get(package, (f"tests/{package}/",))
    return (*tests, f"{PACKAGE}/{package}/")


def run_changes(
    changes: Sequence[Change],
    *,
    tests: Sequence[str],
    jobs: int,
    report: Callable[[Change, Result, int], None],
    has_reason: Callable[[Change], bool] = lambda _: False,
) -> dict[Change, Result]:
    """Returns what the tests did with each change, from this run or from earlier ones.

    Args:
        changes: The changes.
        tests: Folders and files of tests; without any, those of the changed packages.
        jobs: The number of children at the same time.
        report: Is called with each new result and the number of changes that are left.
        has_reason: Whether there is a reason why no test can notice a change.

    Raises:
        RuntimeError: If the tests cannot be collected.
    """
    chosen = tests or sorted({each for change in changes for each in tests_of(change.module)})
    run = _Run(changes, tests, jobs, report, has_reason)
    status = pytest.main([*ARGUMENTS, *NOT_RUN, *chosen], plugins=[run])
    if status == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if status != pytest.ExitCode.OK:
        raise RuntimeError(
            f"the tests must be collected without an error; pytest ended with {status!r}"
        )
    return run.found


@dataclass
class _Child:
    """A process in which a change is tested; it writes the name of each test that it begins."""

    pid: int | None
    change: Change
    digest: str
    folder: Path
    start: float

    @property
    def current(self) -> str | None:
        """The test that runs, or ran last."""
        begun = self.folder / "begun"
        return (
            begun.read_text("utf-8").splitlines()[-1]
            if begun.exists() and begun.stat().st_size
            else None
        )

    def age(self) -> float:
        """Returns the seconds since its last test began."""
        begun = self.folder / "begun"
        return time.time() - (begun.stat().st_mtime if begun.exists() else self.start)

    def end(self, outcome: Outcome) -> Result:
        """Ends what still runs, and returns the result."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        by = (
            self.current
            if outcome in ("killed", "hung")
            else _error_of(self.folder)
            if outcome == "error"
            else None
        )
        shutil.rmtree(self.folder, ignore_errors=True)
        return Result(
            outcome, self.change.source, by, self.digest, round(time.time() - self.start, 2)
        )


class _Run:
    """A plugin of pytest that takes the place of its loop over the tests."""

    def __init__(
        self,
        changes: Sequence[Change],
        tests: Sequence[str],
        jobs: int,
        report: Callable[[Change, Result, int], None],
        has_reason: Callable[[Change], bool],
    ) -> None:
        self.found: dict[Change, Result] = {}
        self._changes, self._tests, self._jobs, self._report = changes, tests, jobs, report
        self._has_reason = has_reason
        self._results = Results(KEPT / "results.jsonl")
        self._kills: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._functions: defaultdict[str, list[FunctionType]] = defaultdict(list)
        self._has_failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self) -> None:
        """Finds all functions of the package, before `tests/conftest.py` hides what exists from the collector."""
        for module in {change.module for change in self._changes}:
            importlib.import_module(f"{PACKAGE}.{module}")
        for each in gc.get_objects():
            if (
                type(each) is FunctionType
            ):  # isinstance would ask each object for its class, and torch's warn
                self._functions[each.__code__.co_filename].append(each)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes that a test failed."""
        self._has_failed = self._has_failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Tests the changes, in place of the tests alone."""
        if session.testsfailed:
            raise session.Failed("tests cannot be collected")
        self._items = {item.nodeid: item for item in session.items}
        self._reach = self._find_reach()
        _import_all(self._reach.imported)
        for test in self._reach.failed:
            print(f"fails without a change, and is not used: {test}")
        self._test(list(self._iter_left()))
        return True

    def _find_reach(self) -> Reach:
        """Returns what each test reaches, recorded now if a test or the code is new."""
        path, files = (
            KEPT / "reach.json",
            [*Path(PACKAGE).rglob("*.py"), *Path("tests").rglob("*.py")],
        )
        modules = sorted({path_of(change.module) for change in self._changes})
        digest = digest_of(files, [*map(str, modules), *self._items])
        if (reach := load_reach(path, digest)) is not None:
            return reach
        print(f"records what {len(self._items)} tests reach", flush=True)

        def record() -> int:
            record_reach(path, digest, list(self._items.values()), self._passes, modules)
            return SURVIVED

        # in a child: what tests leave behind, such as caches, is not there when changes are tested
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            pid = _fork(record, Path(folder))
            try:
                os.waitpid(pid, 0)
            except KeyboardInterrupt:
                os.killpg(pid, signal.SIGKILL)
                raise
            if (reach := load_reach(path, digest)) is None:
                raise RuntimeError(f"the tests could not be recorded: {_error_of(Path(folder))}")
        return reach

    def _passes(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        self._has_failed = False
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self._has_failed

    def _iter_left(self) -> Iterator[tuple[Change, list[str], str]]:
        """Yields the changes without a result that still holds, the tests that reach each, and a digest of these."""
        for change in self._changes:
            tests = self._reach.tests_of(
                path_of(change.module), change, self._tests or tests_of(change.module)
            )
            digest = digest_of({test.split("::")[0] for test in tests})
            result = self._results.get(change)
            has_reason = self._has_reason(change)
            if result is not None and result.holds(
                change, digest, self._items, has_reason=has_reason
            ):
                self._note(change, result)
            else:
                yield change, tests, digest

    def _note(self, change: Change, result: Result) -> None:
        self.found[change] = result
        if result.by is not None:
            self._kills[change.module][result.by] += 1
            self._kills[f"{change.module}.{change.function}"][result.by] += 1

    def _test(self, left: list[tuple[Change, list[str], str]]) -> None:
        waiting, children = deque(left), list[_Child]()
        try:
            while waiting or children:
                # one whose test seems to hang waits, and takes no place
                while waiting and sum(child.age() < 3 for child in children) < self._jobs:
                    children.append(self._start(*waiting.popleft()))
                time.sleep(0.01)
                for child in list(children):
                    if (outcome := self._outcome_of(child)) is not None:
                        children.remove(child)
                        result = child.end(outcome)
                        self._note(child.change, result)
                        self._results.add(child.change, result)
                        self._report(child.change, result, len(waiting) + len(children))
        finally:
            for child in children:
                child.end("error")

    def _start(self, change: Change, tests: list[str], digest: str) -> _Child:
        tests = self._in_order(change, tests)
        folder = Path(tempfile.mkdtemp(prefix="mutation-"))
        pid = (
            _fork(lambda: self._run_tests(change, tests, folder / "begun"), folder)
            if tests
            else None
        )
        return _Child(pid, change, digest, folder, time.time())

    def _in_order(self, change: Change, tests: list[str]) -> list[str]:
        """Returns the tests, those first that will probably notice: which killed before, and quick and unusual ones.

        Unusual is a test that runs the function as few others do: a special case, or one that raises. Each further case
        of a test counts as slower: one that does not notice is rarely alone.
        """
        here, module = self._kills[f"{change.module}.{change.function}"], self._kills[change.module]
        lines = {*_lines_of(change.code), *change.lines, change.statement}
        usual = self._reach.usual(path_of(change.module), lines)
        cost = {test: self._reach.seconds[test] * usual[test] for test in tests}
        seen = Counter[str]()
        for test in sorted(tests, key=cost.__getitem__):
            name = test.split("[")[0]
            seen[name] += 1
            cost[test] *= seen[name] / (1 + 3 * here[test] + module[test])
        package = change.module.split(".")[0]
        own = (f"tests/{package}/", f"{PACKAGE}/{package}/")

        def rank(test: str) -> tuple[bool, float]:
            return not test.startswith(own), cost[test]

        return sorted(tests, key=rank)

    def _run_tests(self, change: Change, tests: Sequence[str], begun: Path) -> int:
        """Runs the tests with the change until one fails; in a child."""
        self._exchange(change)
        with begun.open("a", encoding="utf-8") as names:
            for test, following in zip(tests, [*tests[1:], None], strict=True):
                print(test, file=names, flush=True)
                if not self._passes(
                    self._items[test], self._items[following] if following else None
                ):
                    return KILLED
        return SURVIVED

    def _exchange(self, change: Change) -> None:
        """Gives all functions that were made of the source the code of the change.

        Raises:
            LookupError: No function has this code.
        """
        new = {(code.co_qualname, code.co_firstlineno): code for code in _iter_code(change.code)}
        n_exchanged = 0
        for function in self._functions[str(path_of(change.module))]:
            code = new.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                function.__code__ = code
                n_exchanged += 1
        if n_exchanged == 0:
            raise LookupError(
                "the function was not imported from this folder, or its closure is another one"
            )

    def _outcome_of(self, child: _Child) -> Outcome | None:
        """Returns how a child ended; None while it runs."""
        if child.pid is None:
            return "not reached"
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid:
            # a test that ends the whole process notices, too
            return OUTCOMES.get(os.waitstatus_to_exitcode(status), "killed")
        limit = 15 + 10 * self._reach.seconds.get(child.current or "", 1)
        return "hung" if child.age() > limit else None


def _import_all(names: Sequence[str]) -> None:
    """Imports modules, so that not each child does: that takes ten times as long as most tests."""
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _fork(act: Callable[[], int], folder: Path) -> int:
    """Returns the id of a child that acts in silence, has its files in a folder, and ends with the status returned."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    os.setsid()  # so that what it starts can be ended with it
    status = FAILED
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        status = act()
    except BaseException:
        (folder / "error").write_text(traceback.format_exc(), "utf-8")
    finally:
        os._exit(status)


def _error_of(folder: Path) -> str:
    return (
        (folder / "error").read_text("utf-8")
        if (folder / "error").exists()
        else "the process ended"
    )


def _lines_of(code: CodeType) -> set[int]:
    return {line for one in _iter_code(code) for _, _, line in one.co_lines() if line}


def _iter_code(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _iter_code(constant)
