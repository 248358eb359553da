"""Every command that reads a file is given damaged ones: it ends soon, with a documented status, and no traceback.

On each change one is drawn for each file; eight where the slow tests are run, too.
"""

import faulthandler
import shutil
import time
import zlib
from collections import Counter

import pytest
from typer.main import get_command

from coe_agents import _ring
from coe_agents.cli.app import app
from tests.cli.command import run
from tests.cli.mutants import damage
from tests.rooms import can_run

LONGEST = 10.0
FEW, ALL = 1, 8
DOCUMENTED = {
    "ask": {0, 1, 2, 3, 4},
    "doctor": {0, 1, 2},
    "config check": {0, 2},
    "drift": {0, 1, 2, 3},
}
OTHERS = {0, 1, 2}
COMMANDS = """\
config check coe.toml
config check example.toml
ask France? --json --config coe.toml
serve --port 0 --config coe.toml
doctor --timeout 4 --config coe.toml
score --resamples 2 s.samples.jsonl --config coe.toml
score --resamples 2 calls.samples.jsonl --clusterer actions --proposer a
score --resamples 2 s.samples.jsonl.gz --json
score --resamples 2 sampled
report --resamples 2 --out page.html s.samples.jsonl
reproduce epsilon --out o --samples s.samples.jsonl
calibrate --risk 0.4 --out p.json s.samples.jsonl --weights weights.json
calibrate --risk 0.4 --out p.json ruled.samples.jsonl --current policy.json
weights s.samples.jsonl --out w.toml
advise --resamples 2 s.samples.jsonl
drift policy.json s.samples.jsonl
drift learned.json s.samples.jsonl
drift policy.json --min-seen 0.1 --cases cases.jsonl
compare --resamples 2 decided
sample --config coe.toml --dataset data.jsonl --out sampled
run --config coe.toml --dataset data.jsonl --out ran
sample --config coe.toml --dataset data.jsonl.gz --limit 2 --out new
sample --config coe.toml --dataset squad.json --limit 2 --out new
sample --config coe.toml --dataset triviaqa.json --limit 2 --out new
evaluate --config coe.toml --dataset data.jsonl --out new
harvest --store store.sqlite --out ruled.jsonl --cases cases.jsonl
audit --store store.sqlite
"""
"""Each is run with each damaged file that it names, or that is in a folder that it names."""


@pytest.mark.parametrize("command", list(filter(can_run, COMMANDS.splitlines())))
@pytest.mark.parametrize("drawn", ["few", pytest.param("all", marks=pytest.mark.slow)])
def test_a_damaged_file(made, tmp_path, monkeypatch, command, drawn):
    if _ring.is_there("serve"):
        monkeypatch.setattr("coe_agents.serve.http_server.serve", lambda *_, **__: None)
    codes, faults, folder = Counter[int](), list[str](), tmp_path / "copy"

    def copied():
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)
        monkeypatch.chdir(folder)

    if drawn == "all":  # else half of the time
        copied()
        intact = run(*command.split(), code=None)
        assert intact.returncode != 2, intact.stderr
    named = [made / word for word in command.split() if (made / word).exists()]
    all_files = [
        each for path in named for each in (sorted(path.iterdir()) if path.is_dir() else [path])
    ]
    files = [file for file in all_files if file.stat().st_size]
    assert files
    for path in files:
        for number in range(FEW, ALL) if drawn == "all" else range(FEW):
            content, place = path.read_bytes(), path.relative_to(made)
            seed = zlib.crc32(content + command.encode()) + number
            copied()
            place.write_bytes(damaged := damage(content, path.suffix[1:], seed))
            faults += [
                f"{place}, seed {seed}: {fault} {damaged[:60]!r}"
                for fault in faults_of(command.split(), codes)
            ]
    assert not faults, f"{len(faults)} of {codes.total()} ({dict(codes)}):\n" + "\n".join(
        faults[:12]
    )
    assert drawn == "few" or any(code != 0 for code in codes), "no damage was noticed"


def faults_of(arguments, codes):
    allowed = DOCUMENTED.get(" ".join(arguments[:2]), DOCUMENTED.get(arguments[0], OTHERS))
    start = time.process_time()  # other tests share the processors
    faulthandler.dump_traceback_later(
        30 * LONGEST, exit=True
    )  # a command that hangs ends the tests, and says where
    try:
        done = run(*arguments, code=None)
    except Exception as error:
        yield f"{type(error).__name__}: {str(error)[:900]}"
        return
    finally:
        faulthandler.cancel_dump_traceback_later()
    codes[done.returncode] += 1
    shown = done.stdout + done.stderr
    if done.returncode not in allowed or "Traceback" in shown:
        yield f"status {done.returncode}: {shown[-300:]}"
    if "\x1b" in shown or "\x00" in shown:
        yield f"control characters: {shown!r:.200}"
    if done.returncode == 2 and not done.stderr.strip():
        yield "status 2 without a word"
    if (seconds := time.process_time() - start) > LONGEST:
        yield f"{seconds:.0f} s"


def test_every_command_that_reads_a_file_is_damaged_here():
    known = get_command(app).commands
    names = {name for name in known if name != "config"} | set(known["config"].commands)
    assert names - {"demo", "init"} <= {
        part for command in COMMANDS.splitlines() for part in command.split()[:2]
    }
