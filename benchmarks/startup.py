"""Prints what starting costs, in CPU seconds of a whole process: imports, the help, a question to tinyworld.

    python benchmarks/startup.py [--write FILE]

Next to the graph and the question stand the libraries that they load, and the ratio to these: the median over the
rounds, each of which runs every command once, so that a busy machine slows all of them. The rows that begin with "+"
add up what a question to tinyworld takes from the libraries: any class of a model, LangGraph, and the four models
loaded and run once by transformers alone. What `ask` takes beyond the last of them is this package's own.

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

RUNS = 15
COMMAND = str(Path(sys.executable).with_name("coe-agents"))
IMPORTS = (
    "pass",
    "import coe_agents",
    "import langgraph.graph",
    "from coe_agents import create_coe_graph",
    "import torch, transformers",
    "from transformers import LlamaForCausalLM, ModernBertForSequenceClassification",
)
MODELS_ALONE = """
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder
from coe_agents.tinyworld.facts import MODELS
for name in (*MODELS, ENTAILMENT_MODEL):
    folder = str(model_folder(name))
    inputs = AutoTokenizer.from_pretrained(folder)("What is the capital of France?", return_tensors="pt")
    kind = AutoModelForSequenceClassification if name == ENTAILMENT_MODEL else AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype="float32")
    with torch.inference_mode():
        model(**inputs) if name == ENTAILMENT_MODEL else model.generate(**inputs, do_sample=True, max_new_tokens=8)
"""
FLOOR = {
    "+ the classes of the models": IMPORTS[-1],
    "+ the same and LangGraph": f"import langgraph.graph; {IMPORTS[-1]}",
    "+ the same, models loaded and run once": f"import langgraph.graph; {IMPORTS[-1]}{MODELS_ALONE}",
}
CASES = {f"python -c '{line}'": [sys.executable, "-c", line] for line in IMPORTS}
CASES |= {name: [sys.executable, "-c", code] for name, code in FLOOR.items()}
CASES |= {
    "coe-agents --help": [COMMAND, "--help"],
    "coe-agents ask (tinyworld)": [COMMAND, "ask", "What is the capital of France?"],
}
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
ENVIRONMENT |= {"OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}  # as `ask` sets them
RATIOS = [
    ("from coe_agents import create_coe_graph", "import langgraph.graph"),
    ("coe-agents ask (tinyworld)", "import torch, transformers"),
    *((name, "import torch, transformers") for name in FLOOR),
    ("coe-agents ask (tinyworld)", [*FLOOR][-1]),
]


def cpu_seconds(command: list[str]) -> float:
    return cost_of(command, stderr=subprocess.DEVNULL, env=ENVIRONMENT).seconds


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    rounds = [
        {name: cpu_seconds(command) for name, command in CASES.items()} for _ in range(RUNS + 1)
    ]
    del rounds[0]  # which wrote bytecode and read the files into memory
    width = max(map(len, CASES))
    print(f"{'':{width}} median CPU s of {RUNS}   min   max")
    for name in CASES:
        seconds = [each[name] for each in rounds]
        print(
            f"{name:{width}} {statistics.median(seconds):18.2f} {min(seconds):5.2f} {max(seconds):5.2f}"
        )
    print(f"\n{'ratio':4} {'min':>5} {'max':>5}")
    for name, base in RATIOS:
        ratios = [each[_case(name)] / each[_case(base)] for each in rounds]
        print(
            f"{statistics.median(ratios):5.2f} {min(ratios):5.2f} {max(ratios):5.2f}  {name} : {base}"
        )


def _case(name: str) -> str:
    return name if name in CASES else f"python -c '{name}'"


if __name__ == "__main__":
    with result_page():
        main()
