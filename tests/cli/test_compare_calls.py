"""`compare --policies` decides tool calls as the graph does."""

import json

import pytest

from tests.cli.command import run

CONFIG = """
[[agents]]
name = "a"
provider = "tinyworld"
model = "tiny-llama"
[[agents]]
name = "b"
provider = "tinyworld"
model = "tiny-gpt2"
[clusterer]
kind = "actions"
[policy]
kind = "threshold"
max_coe = 0.3
"""
PAY = [{"name": "pay", "args": {"amount": 5}}]


@pytest.mark.parametrize("clusterer", [[], ["--clusterer", "actions"]])
def test_unanimous_calls_are_answered(tmp_path, clusterer):
    rows = [
        {"id": str(place), "agent": name, "index": 0, "text": "", "calls": PAY, "correct": True}
        for place in range(4)
        for name in "ab"
    ]
    samples, config = tmp_path / "calls.samples.jsonl", tmp_path / "t.toml"
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config.write_text(CONFIG)
    done = run("compare", "--policies", str(config), str(samples), "--json", *clusterer)
    assert done.returncode == 0, done.stderr
    (policy,) = json.loads(done.stdout)["policies"]
    assert policy["figures"]["coverage"]["value"] == 1.0
