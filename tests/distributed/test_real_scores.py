"""On the saved responses of real models, `COE_DATA`, both engines say the same; the questions are spread over files."""

import gzip
import json
import os
import sys
from pathlib import Path

from coe_agents.evaluation.samples.parquet import SAMPLE_COLUMNS, to_parquet
from tests.distributed.test_cluster_runs import started

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from calibn import EQUALS, to_samples


def test_the_report_is_the_local_engines(machines, tmp_path):
    with gzip.open(Path(os.environ["COE_DATA"]) / "gen_nq_calibn.dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for line in lines for row in to_samples(json.loads(line), EQUALS)]
    whole, half, rest = (tmp_path / name for name in ("a.samples.jsonl", "b.samples.jsonl.gz", "c.parquet"))
    whole.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with gzip.open(half, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows[::2])
    rest.write_bytes(to_parquet(rows[1::2], {**SAMPLE_COLUMNS, "verbal_conf": "double"}))
    options = ["--json", "--resamples", "20"]
    ray = [
        "--engine",
        "ray",
        "--address",
        machines.address,
        "--out",
        str(tmp_path / "scores"),
        "--partition-size",
        "64",
    ]
    told = []
    for command in ([str(whole), *options], *[[str(half), str(rest), *options, *ray]] * 2):
        process = started("score", *command)
        said, faults = process.communicate(timeout=600)
        assert process.returncode == 0, faults
        told.append(said)
        files = {path: path.stat().st_ino for path in sorted((tmp_path / "scores").glob("*.parquet"))}
        assert len(files) == (8 if len(told) > 1 else 0)
    assert told[0] == told[1] == told[2]
    assert json.loads(told[0])["n_questions"] == 496
