"""Prints what starting costs, in CPU seconds of a whole process: imports, the help, a question to tinyworld.

    python benchmarks/startup.py [--write FILE]

Next to the graph and the question stand the libraries that they load, and the ratio to these: the median over the
rounds, each of which runs every command once, so that a busy machine slows all of them.

Every process finds the compiled bytecode of all packages, as where pip installed them: the first round, which is not
counted, writes that of a checkout, even where PYTHONDONTWRITEBYTECODE is set.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from process_cost import cost_of
from result_page import result_page

RUNS = 5
COMMAND = str(Path(sys.executable).with_name("coe-agents"))
IMPORTS = (
    "pass",
    "import coe_agents",
    "import langgraph.graph",
    "from coe_agents import create_coe_graph",
    "import torch, transformers",
    "from transformers import LlamaForCausalLM, ModernBertForSequenceClassification",
)
CASES = {f"python -c '{line}'": [sys.executable, "-c", line] for line in IMPORTS} | {
    "coe-agents --help": [COMMAND, "--help"],
    "coe-agents ask (tinyworld)": [COMMAND, "ask", "What is the capital of France?"],
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
RATIOS = [
    ("from coe_agents import create_coe_graph", "import langgraph.graph"),
    ("coe-agents ask (tinyworld)", "import torch, transformers"),
    ("coe-agents ask (tinyworld)", IMPORTS[-1]),
]


def cpu_seconds(command: list[str]) -> float:
    return cost_of(command, stderr=subprocess.DEVNULL, env=ENVIRONMENT).seconds


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rounds = [{name: cpu_seconds(command) for name, command in CASES.items()} for _ in range(RUNS + 1)]
    del rounds[0]  # which wrote bytecode and read the files into memory
    width = max(map(len, CASES))
    print(f"{'':{width}} median CPU s of {RUNS}   min   max")
    for name in CASES:
        seconds = [each[name] for each in rounds]
        print(f"{name:{width}} {statistics.median(seconds):18.2f} {min(seconds):5.2f} {max(seconds):5.2f}")
    print(f"\n{'ratio':4} {'min':>5} {'max':>5}")
    for name, base in RATIOS:
        ratios = [each[_case(name)] / each[_case(base)] for each in rounds]
        print(f"{statistics.median(ratios):5.2f} {min(ratios):5.2f} {max(ratios):5.2f}  {name} : {base}")


def _case(name: str) -> str:
    return name if name in CASES else f"python -c '{name}'"


if __name__ == "__main__":
    with result_page():
        main()
