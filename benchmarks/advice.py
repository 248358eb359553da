"""Prints the whole output of `coe-agents advise` on three sets of real responses, and on 60 questions of one of them.

    python benchmarks/advice.py FOLDER [--write FILE]

FOLDER holds the generations of triviaqa_calibn, mmlupro_calib and mathl5_zeroeval, `gen_*.dev.jsonl.gz`.
Of the multiple choice questions, the first 1,000 are taken.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import defaults
from calibn import UNEQUALS, to_samples
from real_groups import MATHS, records_of
from result_page import result_page

from coe_agents.cli import main as command

SETS = (
    ("triviaqa_calibn", UNEQUALS, 10_000),
    ("mmlupro_calib", defaults.LETTERS["unequal"], 1000),
    ("mathl5_zeroeval", MATHS["ladder"], 10_000),
    ("triviaqa_calibn", UNEQUALS, 60),
)


def main() -> None:
    folder = Path(sys.argv[1])
    for name, models, most in SETS:
        with TemporaryDirectory() as scratch:
            path = Path(scratch) / f"{name}.samples.jsonl"
            found = [list(to_samples(record, models)) for record in records_of(folder, name)]
            chosen = [samples for samples in found if samples][:most]
            path.write_text(
                "".join(json.dumps(each) + "\n" for samples in chosen for each in samples)
            )
            print(
                f"\n{name}, {len(chosen)} questions: {', '.join(models)}\n$ coe-agents advise {path.name}",
                flush=True,
            )
            sys.argv = ["coe-agents", "advise", str(path)]
            try:
                command()
            except SystemExit as ended:
                if ended.code:
                    raise


if __name__ == "__main__":
    with result_page():
        main()
