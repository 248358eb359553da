"""Prints what starting costs, in CPU seconds of a whole process: the import, the help, a question to tinyworld.

python benchmarks/startup.py [--write FILE]
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from result_page import result_page

RUNS = 5
COMMAND = str(Path(sys.executable).with_name("coe-agents"))
CASES = {
    "python -c 'import coe_agents'": [sys.executable, "-c", "import coe_agents"],
    "python -c 'pass'": [sys.executable, "-c", "pass"],
    "coe-agents --help": [COMMAND, "--help"],
    "coe-agents ask (tinyworld)": [COMMAND, "ask", "What is the capital of France?"],
}


def cpu_seconds(command: list[str]) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"{'':32} median CPU s of {RUNS}   min   max")
    for name, command in CASES.items():
        cpu_seconds(command)  # once, so that the files are in memory
        seconds = [cpu_seconds(command) for _ in range(RUNS)]
        print(f"{name:32} {statistics.median(seconds):18.2f} {min(seconds):5.2f} {max(seconds):5.2f}")


if __name__ == "__main__":
    with result_page():
        main()
