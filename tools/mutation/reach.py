"""Owns which tests reach which lines, and how long each test takes."""

import hashlib
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import coverage
import pytest

from tools.mutation.changes import Change


@dataclass(frozen=True)
class Reach:
    """What was recorded of one run of all tests without a change.

    Attributes:
        of: A digest of the code and of the tests.
        seconds: The time of each test that passed.
        failed: The tests that failed, which can show nothing.
        lines: For each file and line, the tests that ran it.
        imported: The modules that the tests imported.
    """

    of: str
    seconds: dict[str, float]
    failed: list[str]
    lines: dict[str, dict[str, list[str]]]
    imported: list[str]

    def tests_of(self, path: Path, change: Change, folders: Sequence[str]) -> list[str]:
        """Returns the tests of some folders that run a changed line, or else the first line of its statement."""
        by_line = self.lines.get(str(path), {})
        found = {test for line in change.lines for test in by_line.get(str(line), ())}
        found = found or set(by_line.get(str(change.statement), ()))
        return [test for test in found if test in self.seconds and test.startswith(tuple(folders))]

    def usual(self, path: Path, lines: Iterable[int]) -> dict[str, int]:
        """Returns how usual it is what each test runs of some lines.

        That is how many tests run just these of them, times how many run the one that the fewest run.
        """
        by_line = self.lines.get(str(path), {})
        lines_of, fewest = defaultdict[str, list[int]](list), dict[str, int]()
        for line in sorted(lines):
            tests = by_line.get(str(line), [])
            for test in tests:
                lines_of[test].append(line)
                fewest[test] = min(fewest.get(test, len(tests)), len(tests))
        n_alike = Counter(map(tuple, lines_of.values()))
        return {test: n_alike[tuple(lines_of[test])] * fewest[test] for test in lines_of}


def load_reach(path: Path, digest: str) -> Reach | None:
    """Returns what was recorded of the same code and the same tests."""
    if not path.exists():
        return None
    record = json.loads(path.read_text("utf-8"))
    return Reach(**record) if record["of"] == digest else None


def record_reach(
    path: Path,
    digest: str,
    items: Sequence[pytest.Item],
    run: Callable[[pytest.Item, pytest.Item | None], bool],
    paths: Iterable[Path],
) -> None:
    """Runs all tests, and writes what was recorded of the files at `paths`."""
    recorder = coverage.Coverage(
        data_file=None, config_file=False, include=[str(each) for each in paths]
    )
    seconds, failed = {}, []
    known = {*sys.modules}
    recorder.start()
    for item, following in zip(items, [*items[1:], None], strict=True):
        recorder.switch_context(item.nodeid)
        start = time.perf_counter()
        if run(item, following):
            seconds[item.nodeid] = time.perf_counter() - start
        else:
            failed.append(item.nodeid)
    recorder.switch_context("")
    recorder.stop()
    data = recorder.get_data()
    lines = {
        file: {
            str(line): [test for test in tests if test]
            for line, tests in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    imported = [name for name in sys.modules if name not in known]  # in their order
    path.parent.mkdir(parents=True, exist_ok=True)
    reach = Reach(digest, seconds, failed, lines, imported)
    path.write_text(json.dumps(asdict(reach)), "utf-8")


def digest_of(files: Iterable[Path | str], words: Iterable[str] = ()) -> str:
    """Returns a digest of the names and texts of files, and of further words."""
    digest = hashlib.sha256()
    for file in sorted(map(str, files)):
        digest.update(file.encode() + b"\0" + _digest_of_file(file))
    for word in words:
        digest.update(word.encode() + b"\0")
    return digest.hexdigest()[:16]


@cache
def _digest_of_file(file: str) -> bytes:
    return hashlib.sha256(Path(file).read_bytes()).digest()
