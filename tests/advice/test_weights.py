import json
import tomllib

import pytest

from coe_agents.config.build import load_weights
from coe_agents.config.schema import load_config
from coe_agents.errors import ConfigurationError
from coe_agents.experiments import calibrate
from tests.cli.command import run
from tests.evaluation.invented import row, write

AGENT = '[[agents]]\nname = "{}"\nmodel = "openai:m"\n'


def said(**texts):
    """One question for each letter: agents of equal letters agree."""
    names = dict.fromkeys(texts)
    return [
        row(f"q{place}", name, 0, letters[place])
        for name, letters in texts.items()
        for place in range(len(texts[next(iter(names))]))
    ]


def test_weights_need_no_labels_and_the_graph_reads_them(tmp_path):
    samples = write(tmp_path / "s.samples.jsonl", said(a="xxxx", b="xxxy", c="xzzz"))
    done = run("weights", samples, "--out", tmp_path / "weights.toml", "--json")
    found = json.loads(done.stdout)
    # agreement: a (1 + 1/2 + 1/2 + 0) / 4, b the same, c 1 / 4
    assert found["weights"] == pytest.approx({"a": 8 / 17, "b": 8 / 17, "c": 1 / 17})
    assert (found["odd_one_out"], found["check"]) == ("c", None)
    written = tomllib.loads((tmp_path / "weights.toml").read_text())
    assert written["weights"] == found["weights"]
    config = tmp_path / "coe.toml"
    config.write_text('[graph]\nweights = "weights.toml"\n' + "".join(map(AGENT.format, "abc")))
    assert load_weights(load_config(config)) == found["weights"]
    config.write_text('[graph]\nweights = "weights.toml"\n' + "".join(map(AGENT.format, "abd")))
    with pytest.raises(ConfigurationError, match='names an agent that is not in the group: "c"'):
        load_weights(load_config(config))
    other = write(
        tmp_path / "other.samples.jsonl",
        [{**each, "references": ["x"]} for each in said(a="xx", b="xx")],
    )
    options = ["--weights", tmp_path / "weights.toml", "--risk", 0.5, "--out", tmp_path / "p.json"]
    assert "Invalid value for --weights" in run("calibrate", other, *options, code=2).stderr
    with pytest.raises(ValueError, match='only one of the two has "c"') as refused:
        calibrate(other, risk=0.5, weights=found["weights"])
    assert refused.value.field == "weights"
    alone = write(tmp_path / "alone.samples.jsonl", said(a="xy"))
    run("weights", alone, code=1)  # one agent has nobody to agree with
    shown = run("weights", samples).stdout
    assert (
        "Here c agrees far less than the others with the rest. Whether that is so, only labels can tell"
        in shown
    )


# right is "r": the odd one out is always right
ODD_IS_RIGHT = {"a": "xyxyxyxy", "b": "xyxyxyxr", "c": "rrrrrrrr"}
# b and c agree with a by turns, and where all three differ, a is right
MOST_AGREED_IS_RIGHT = {"a": "rrrrrrrr", "b": "rrxyvwxy", "c": "klrrklmn"}
# d is the lightest and always wrong, c is right where a and b agree on what is wrong
TWO_ARE_WRONG = {
    "a": "x" * 30,
    "b": "x" * 30,
    "c": "r" * 30,
    "e": "r" * 20 + "x" * 10,
    "d": "z" * 30,
}


@pytest.mark.parametrize(
    ("texts", "told", "use"),
    [
        (
            ODD_IS_RIGHT,
            "best model, c (right in 100.0%), is the odd one out",
            "Keep equal weights: the labels advise against these.",
        ),
        (MOST_AGREED_IS_RIGHT, "They help", 'To use it: [graph] weights = "w.toml"'),
        (TWO_ARE_WRONG, "They do harm", "Keep equal weights: the labels advise against these."),
    ],
)
def test_labels_tell_whether_the_weights_help_and_whether_to_use_them(tmp_path, texts, told, use):
    rows = [{**each, "references": ["r"]} for each in said(**texts)]
    samples = write(tmp_path / "s.samples.jsonl", rows)
    written = tmp_path / "w.toml"

    shown = run("weights", samples, "--out", written).stdout
    assert told in shown
    assert f"Wrote {written}. {use}" in shown
