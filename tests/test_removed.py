"""What earlier versions had is refused by an error that says what replaces it, and the changelog has a line on it."""

import re
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction, signature
from pathlib import Path

import pytest

from coe_agents import GroupDecision, _ring, create_coe_graph
from coe_agents._removed import REMOVED
from coe_agents.clustering import EmbeddingSimilarity
from coe_agents.config.build import Configuration
from coe_agents.config.schema import read_config
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation import Samples
from coe_agents.evaluation.scoring.scores import report
from coe_agents.measurement.estimators import find_score
from coe_agents.middleware import CoEMiddleware
from coe_agents.policy import CalibratedPolicy, measure
from coe_agents.testing import create_response
from coe_agents.uncertainty import coe_interval, coordinate
from tests.policy.test_calibrated import CALIBRATION

ROOT = Path(__file__).parents[1]
FUNCTIONS = {
    "create_coe_graph": partial(create_coe_graph, []),
    "measure": partial(measure, [], []),
    "create_graph": partial(Configuration.create_graph, None),
    "CoEMiddleware": partial(CoEMiddleware, None, tools=["pay"]),
    "coe_interval": partial(coe_interval, [0], ["a"]),
    "Samples": partial(Samples, []),
    "report": partial(report, None),
}
OBJECTS = {
    "GroupDecision": GroupDecision(action="abstain", answer=None, reason="as told"),
    "Measurement": measure([create_response("a", "x")], [0]),
}
TABLES = ("graph",)
PARTS = ("score", "solver", "choice")
AGENT = '[[agents]]\nname = "a"\nprovider = "tinyworld"\nmodel = "tiny-llama"\n'


def names_of(*owners):
    return [(owner, name) for owner in owners for name in REMOVED[owner]]


NO_MODULES = {*FUNCTIONS, *OBJECTS, *TABLES, *PARTS}
MODULES = []
for owner in REMOVED:
    _, _, room = owner.partition(".")
    is_taken_away = room in _ring.ROOMS and not _ring.is_there(room)
    if owner not in NO_MODULES and not is_taken_away:
        MODULES.append(owner)


@pytest.mark.parametrize(("module", "name"), names_of(*MODULES))
def test_a_name_of_a_module(module, name):
    with pytest.raises(
        ImportError, match=f"{name} cannot be imported from {module}: it was removed. "
    ) as refused:
        exec(f"from {module} import {name}")
    assert REMOVED[module][name] in str(refused.value)
    assert not hasattr(import_module(module), "never_there")


@pytest.mark.parametrize(("function", "name"), names_of(*FUNCTIONS))
def test_an_argument(function, name):
    with pytest.raises(
        TypeError, match=f'{function} must be called without "{name}", which was removed. '
    ) as refused:
        FUNCTIONS[function](**{name: None})
    assert REMOVED[function][name] in str(refused.value)
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'never_there'"):
        FUNCTIONS[function](never_there=None)


ROOMS = (
    "actions",
    "advice",
    "agents",
    "backends",
    "claims",
    "clustering",
    "decisions",
    "evaluation",
    "experiments",
)
ROOMS += (
    "graph",
    "middleware",
    "observability",
    "pages",
    "policy",
    "presets",
    "rounds",
    "rulings",
    "serve",
    "testing",
)
MADE_BY_US = {"Decision", "Measurement", "RoundContext", "RoundPlan"}
"""What a policy, a measurement or a strategy gives; nobody sets its options."""
OF_FEW = {
    "ChatTransformers",
    "canonical_action",
    "cluster_many",
    "cluster_responses",
    "create_response",
}
OF_FEW |= {"describe_call", "measure", "pending_cases", "rule", "settle", "evaluate", "load_model"}
"""What has hardly an argument that one could misspell; a chat model, which pydantic checks; `load_model`, which
passes on what it does not know; and `evaluate`, which looks at arguments once it has models and questions."""


def parts_with_options():
    """Returns the public functions and classes that take arguments by name, each with the last of these."""
    parts = {}
    for room in ROOMS:
        if room in _ring.ROOMS and not _ring.is_there(room):
            continue
        module = import_module(f"coe_agents.{room}")
        names = getattr(module, "__all__", ("short_answers", "sentences", "mathematics"))
        for name in names:
            part = getattr(module, name)
            is_of_users = name not in MADE_BY_US | OF_FEW and not getattr(
                part, "_is_protocol", False
            )
            if not (is_of_users and callable(part)) or iscoroutinefunction(part):
                continue
            taken = [
                each.name
                for each in signature(part).parameters.values()
                if each.default is not each.empty
            ]
            if taken and part.__module__.startswith("coe_agents."):
                parts[name] = (part, taken[-1])
    return parts


PARTS_WITH_OPTIONS = parts_with_options()


def test_the_parts_with_options_are_found():
    assert {"CoECouncil", "CoEMiddleware", "ModelAgent", "RegimePolicy"} <= set(PARTS_WITH_OPTIONS)


@pytest.mark.parametrize("name", PARTS_WITH_OPTIONS)
def test_the_nearest_argument_is_named_for_a_misspelt_one(name):
    part, argument = PARTS_WITH_OPTIONS[name]
    misspelt = f"{argument}x"
    said = f"{name} got an unexpected keyword argument '{misspelt}'. Did you mean '{argument}'?"
    with pytest.raises(TypeError, match=re.escape(said)):
        part(**{misspelt: 1})


def test_an_argument_that_no_default_has_is_named_too():
    with pytest.raises(TypeError, match=r"EmbeddingSimilarity got .*Did you mean 'threshold'\?"):
        EmbeddingSimilarity(None, treshold=0.9)


@pytest.mark.parametrize(("kind", "name"), names_of(*OBJECTS))
def test_an_attribute(kind, name):
    with pytest.raises(
        AttributeError, match=f"'{kind}' object has no attribute '{name}': it was removed. "
    ) as refused:
        getattr(OBJECTS[kind], name)
    assert REMOVED[kind][name] in str(refused.value)
    with pytest.raises(AttributeError, match=f"'{kind}' object has no attribute 'never_there'$"):
        OBJECTS[kind].never_there  # noqa: B018 - reading it is what fails


@pytest.mark.parametrize(("table", "name"), names_of(*TABLES))
@pytest.mark.parametrize("written", ["{name} = 1\n", "[{table}.{name}]\nstart = 1\n"])
def test_a_field_of_the_configuration(table, name, written):
    text = f"{AGENT}[{table}]\n" + written.format(table=table, name=name)
    removed = f"coe.toml:6: {table}.{name}: this field was removed. "
    named = f"{re.escape(removed)}.*{re.escape(REMOVED[table][name])}"
    with pytest.raises(ConfigurationError, match=named):
        read_config(text, Path("coe.toml"))


@pytest.mark.parametrize("name", REMOVED["score"])
def test_a_score_and_a_saved_policy_that_compares_it(name, tmp_path):
    named = (
        f'a score must not be "{name}", which was removed. .*{re.escape(REMOVED["score"][name])}'
    )
    with pytest.raises(ValueError, match=named):
        find_score(name)
    path = tmp_path / "policy.json"
    CalibratedPolicy(replace(CALIBRATION, score=name)).save(path)
    with pytest.raises(
        ConfigurationError, match=f'policy.json is damaged: a score must not be "{name}"'
    ):
        CalibratedPolicy.load(path)


@pytest.mark.parametrize("name", REMOVED["solver"])
def test_a_solver(name):
    replaced_by = re.escape(REMOVED["solver"][name])
    named = f'"solver" must not be "{name}", which was removed. .*{replaced_by}'
    with pytest.raises(ValueError, match=named):
        coordinate([[1.0]], solver=name)
    named = f"coe.toml:6: graph.coordination: must not be '{name}', which was removed. .*"
    with pytest.raises(ConfigurationError, match=named + replaced_by):
        read_config(f'{AGENT}[graph]\ncoordination = "{name}"\n', Path("coe.toml"))


@pytest.mark.parametrize(("owner", "name"), names_of(*REMOVED))
def test_the_changelog_has_a_line_on_it(owner, name):
    _, _, table = (
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("| Removed | In its place |")
    )
    removed = [
        line.split("|")[1]
        for line in table.partition("\n\n")[0].splitlines()
        if line.startswith("|")
    ]
    assert any(f"`{name}" in cell for cell in removed), f"{owner}: {name}"
