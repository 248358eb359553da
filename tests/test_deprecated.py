"""What was public in 0.1 can be imported, as before or with a warning that names the new place; its files load."""

import importlib
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from coe_agents import _deprecated
from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation import Samples, score
from coe_agents.evaluation.samples.folder import run_folder
from coe_agents.policy import CalibratedPolicy, measure
from coe_agents.rounds import RoundContext
from coe_agents.testing import create_response

DATA = Path(__file__).parent / "data" / "0.1"
"""Written by 0.1: a policy on CoE, a learned one, and the folder of a run."""
PUBLIC = json.loads((DATA / "public_names.json").read_text())
"""The names in `__all__` of every package of 0.1."""


def import_afresh(module: str):
    """Imports a module whose old path may be known from before, and returns it with the messages of the warnings."""
    if module in _deprecated.MODULES:
        sys.modules.pop(module, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = importlib.import_module(module)
    return found, [str(warning.message) for warning in caught if warning.category is DeprecationWarning]


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_of_0_1_can_be_imported(module):
    found, warned = import_afresh(module)
    new_module = _deprecated.MODULES.get(module)
    expected = [f'"{module}" is now "{new_module}"; the old name is removed in 0.3'] if new_module else []
    assert warned == expected
    for name in PUBLIC[module]:
        if (new := _deprecated.NAMES.get(module, {}).get(name)) is None:
            assert hasattr(found, name), name
            continue
        with pytest.warns(DeprecationWarning, match=f'"{module}.{name}" is now "{new}"') as caught:
            value = getattr(found, name)
        assert caught[0].filename == __file__
        place, _, own = new.rpartition(".")
        assert value is getattr(importlib.import_module(place), own)
        assert own not in ("", name) or place != module


def test_the_table_has_public_names_of_0_1_only():
    old = {f"{module}.{name}" for module, names in _deprecated.NAMES.items() for name in names}
    public = {f"{module}.{name}" for module, names in PUBLIC.items() for name in names}
    assert old - {"coe_agents.prompts.clarified", "coe_agents.prompts.quoted"} <= public  # a module without `__all__`
    assert set(_deprecated.MODULES) <= set(PUBLIC)


@pytest.mark.parametrize(
    "statements",
    [
        ["import coe_agents.evaluation.page", "from coe_agents.evaluation.page.rows import Rows"],
        [
            "from coe_agents.evaluation import page",
            "from coe_agents.evaluation.estimators.agreement import vote_share",
            "from coe_agents.evaluation import measured",
        ],
    ],
)
def test_an_import_under_an_old_path_warns_where_it_is_written(statements):
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", "\n".join(statements)], capture_output=True, text=True, check=True
    )
    lines = {line.partition(": DeprecationWarning: ")[0] for line in done.stderr.splitlines() if "Deprecation" in line}
    assert lines == {f"<string>:{number}" for number in range(1, len(statements) + 1)}


def test_old_names_of_a_module_without_a_list_of_names_warn():
    prompts = importlib.import_module("coe_agents.prompts")
    for old, new in _deprecated.NAMES["coe_agents.prompts"].items():
        with pytest.warns(DeprecationWarning, match=f'"coe_agents.prompts.{old}" is now "{new}"'):
            assert getattr(prompts, old) is getattr(prompts, new.rpartition(".")[2])


def test_a_strategy_may_use_the_old_name_of_a_method():
    measurement = measure([create_response("a", "Paris")], [0])
    context = RoundContext(
        question="Q?",
        messages=[{"role": "user", "content": "Q?"}],
        round=1,
        measurement=measurement,
        n_responses={"a": 1},
    )
    with pytest.warns(DeprecationWarning, match='"RoundContext.rephrased" is now "RoundContext.rephrase"') as caught:
        assert context.rephrased("R?") == [{"role": "user", "content": "R?"}]
    assert caught[0].filename == __file__


def test_a_module_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("coe_agents.evaluation.nonsense")
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = importlib.import_module("coe_agents.evaluation").nonsense


def test_a_module_under_its_old_path_is_the_same_module():
    old, _ = import_afresh("coe_agents.evaluation.page")
    new = importlib.import_module("coe_agents.evaluation.html")
    assert old is new
    sys.modules.pop("coe_agents.evaluation.page.rows", None)
    with pytest.warns(DeprecationWarning, match=r'"coe_agents.evaluation.page.rows" is now'):
        rows = importlib.import_module("coe_agents.evaluation.page.rows")
    assert rows is new.rows
    assert new.__name__ == new.__spec__.name == "coe_agents.evaluation.html"


@pytest.mark.parametrize(("file", "uncertainty"), [("policy.json", 0.542514125), ("learned_policy.json", 0.18462228)])
def test_a_policy_of_0_1_decides_as_it_did(file, uncertainty, tmp_path):
    answers = {"llama": ["Paris", "Paris", "Rome"], "qwen": ["Paris", "Rome", "Paris"]}
    responses = [
        create_response(agent, text, index=index, logprob=-0.5 if text == "Paris" else -1.5, n_tokens=2)
        for agent, texts in answers.items()
        for index, text in enumerate(texts)
    ]
    measurement = measure(responses, [["Paris", "Rome"].index(response["text"]) for response in responses])
    policy = CalibratedPolicy.load(DATA / file)
    assert policy.calibration.uncertainty(measurement) == pytest.approx(uncertainty)  # as 0.1 printed it
    assert policy.decide(measurement, round=0, max_rounds=1).answer == "Paris"
    policy.save(tmp_path / file)
    assert CalibratedPolicy.load(tmp_path / file).calibration == policy.calibration


def test_a_run_of_0_1_is_read_and_scored():
    with Samples([DATA / "run"]) as questions:
        (question,) = questions
        assert len(question.responses) == 30
        assert score([question], clusterer=NormalizedMatch(), weighting="auto").n_questions == 1


def test_a_run_of_0_1_is_not_continued_and_the_error_says_what_to_do(tmp_path):
    folder = shutil.copytree(DATA / "run", tmp_path / "run")
    settings = json.loads((folder / "settings.json").read_text())
    with run_folder(folder, settings, holds="run.samples.jsonl"):
        pass
    changed = {
        **settings,
        "coe_agents": "0.2.0",
        "agents": [{**each, "on_greedy": "exclude"} for each in settings["agents"]],
    }
    with pytest.raises(ConfigurationError, match=r"coe_agents: '0\.1\.0' there, '0\.2\.0' here") as raised:
        run_folder(folder, changed, holds="run.samples.jsonl").__enter__()
    assert raised.value.hint == "Choose another folder, or continue with coe-agents 0.1.0, which wrote it"
