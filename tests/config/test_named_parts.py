import json
import re
import sys
import traceback
from dataclasses import replace

import pytest

from coe_agents import _ring
from coe_agents.config import load
from coe_agents.config.schema import load_config
from coe_agents.errors import ConfigurationError
from coe_agents.experiments.comparing import _policy_of_file
from coe_agents.testing import ScriptedAgent

AGENTS = '[[agents]]\nname = "a"\nprovider = "tinyworld"\nmodel = "tiny-llama"\n'
CLUSTERER = '[clusterer]\nkind = "normalized"\n'
POLICY = '[policy]\nkind = "threshold"\nmax_coe = 1\n'
CODE = """
class Same:
    def __init__(self, digits=2, *, strict=True):
        if digits < 0:
            raise ValueError('"digits" must be at least 0; got -1. Raise it')

    def cluster(self, responses, questions):
        ...

def create_same(**options):
    return Same(**options)

class Always:
    def __init__(self, reason):
        ...

class WithoutRounds(Always):
    def decide(self, measurement):
        ...

def squared(distributions):
    sharper = distributions**2
    return sharper / sharper.sum(axis=-1, keepdims=True)

def scalar(distributions):
    return 1.0

def same_class():
    return Same

LIMIT = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # a folder stays there
    return tmp_path


def module(folder, code=CODE):
    """Returns the name of a module beside the configuration file, which no other test has imported."""
    name = f"named_parts_{folder.name}"
    (folder / f"{name}.py").write_text(code)
    return name


def written(folder, *, clusterer=CLUSTERER, graph=""):
    path = folder / "coe.toml"
    path.write_text(AGENTS + clusterer + POLICY + graph)
    return path


def test_a_solver(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    name = module(folder)
    config = load(written(folder, graph=f'[graph]\ncoordination = "{name}:squared"\n'))
    graph = replace(config, agents=[ScriptedAgent("a", ["Paris", "Lyon"])]).create_graph().compile()
    decision = graph.invoke({"question": "What is the capital of France?"})["decision"]
    assert decision["coordinated_coe"] is not None


RULES = 'kind = "actions"\noptions.'


@pytest.mark.parametrize(
    ("part", "text", "says"),
    [
        (
            "clusterer",
            'kind = "no_such_module:Same"',
            'clusterer.kind: clusterer "no_such_module:Same" cannot be',
        ),
        ("clusterer", 'kind = "{m}:Sane"', 'has no "Sane". Did you mean "Same"?'),
        (
            "clusterer",
            'kind = "{m}:LIMIT"',
            ':LIMIT" must be a class or function that creates a clusterer; got int',
        ),
        (
            "clusterer",
            'kind = "{m}:same_class"',
            "with the method cluster(responses, questions); got type",
        ),
        (
            "clusterer",
            'kind = "{m}:Same"\noptions.digits = -1',
            '7: clusterer.options.digits: clusterer "',
        ),
        (
            "clusterer",
            'kind = "{m}:create_same"\noptions.zzz = 1',
            "cannot be created: TypeError: Same.__init__() got",
        ),
        (
            "clusterer",
            'kind = "{m}:Same"\ndigits = 1',
            "7: clusterer.digits: unknown field. Move it to [clusterer.",
        ),
        (
            "clusterer",
            f'{RULES}compar = ""',
            ': clusterer.options: "compar" is not an option of "actions". Its',
        ),
        (
            "clusterer",
            f'{RULES}compare.note = "ignored"',
            'the rule of "note" must be "exact", "ignore"',
        ),
        (
            "clusterer",
            f"{RULES}compare.pay.sum.within = 1",
            'Put a name with a point in quotes: "tool.argument"',
        ),
        ("claims", 'support = "entailment"', "claims"),
        ("claims", "mark_from = 0.9", "claims"),
        ("claims", "min_support = 2", "claims"),
        ("claims", "kept = 1", "claims"),
        ("policy", 'kind = "{m}:Always"', ':Always" requires the option "reason". Add it'),
        (
            "policy",
            'kind = "{m}:WithoutRounds"\noptions.reason = ""',
            "max_rounds); got WithoutRounds",
        ),
        ("policy", 'kind = "majority"', "policy.kind: must be one of"),
        ("policy", 'kind = "majority"', 'is written as the "package.module:name" it stood for'),
        (
            "policy",
            'kind = "calibrated"\npath = "p.json"\nestimator = "mine"',
            'policy.estimator: must be "package.',
        ),
        ("graph", 'coordination = "{m}:scalar"', '6: graph.coordination: solver "'),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_what_to_do(part, text, says, folder):
    tables = {"clusterer": CLUSTERER, "policy": POLICY, "graph": ""}
    tables.pop(part, None)
    path = folder / "coe.toml"
    path.write_text(
        f"{AGENTS}[{part}]\n{text.format(m=module(folder))}\n" + "".join(tables.values())
    )
    one_line = rf"^{re.escape(str(path))}:.*{re.escape(says)}.*\Z"
    with pytest.raises(ConfigurationError, match=one_line):
        load(path).create_graph()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import not_installed", "ModuleNotFoundError: No module named 'not_installed'"),
        ("import sys; sys.exit()", "cannot be imported: SystemExit"),
        ("import sys; Same = lambda: sys.exit(0)", "cannot be created: SystemExit: 0"),
    ],
)
def test_a_module_that_fails_when_imported(code, says, folder):
    with pytest.raises(ConfigurationError, match=says):
        load(written(folder, clusterer=f'[clusterer]\nkind = "{module(folder, code)}:Same"\n'))


def test_a_part_that_prints_its_token_does_not_reveal_it(folder):
    code = "def make(token):\n    raise ValueError('refused: ' + token)"
    options = '[clusterer.options]\ntoken = "0123456789-mine"\n'
    path = written(
        folder, clusterer=f'[clusterer]\nkind = "{module(folder, code)}:make"\n{options}'
    )
    with pytest.raises(ConfigurationError, match=r"refused: \[redacted\]") as raised:
        load(path)
    assert "0123456789" not in "".join(traceback.format_exception(raised.value))


def test_reading_the_settings_alone_imports_nothing(folder):
    name = module(folder, "raise RuntimeError")
    settings = load_config(written(folder, clusterer=f'[clusterer]\nkind = "{name}:Same"\n'))
    assert settings.clusterer.kind == f"{name}:Same"
    assert name not in sys.modules


ACTIONS = '[clusterer]\nkind = "actions"\n'


def test_tool_calls_are_compared_by_the_rules_of_the_file(folder):
    rules = '"pay.sum" = { within = 0.01 }\nnote = "ignore"\ntags = "any_order"\nshare = { within_relative = 0.5 }'
    rules += '\nto = "text"'
    config = load(written(folder, clusterer=f"{ACTIONS}[clusterer.options.compare]\n{rules}\n"))
    calls = [
        [{"name": "pay", "args": {"sum": amount, "note": note, "tags": tags, "share": share}}]
        for amount, note, tags, share in (
            (5, "a", [1, 2], 10),
            (5.004, "b", [2, 1], 14),
            (6, "a", [1, 2], 10),
        )
    ]
    assert config.clusterer.cluster([[json.dumps(one) for one in calls]], ["?"]) == [[0, 0, 1]]
    assert type(load(written(folder, clusterer=ACTIONS)).clusterer).__name__ == "ActionMatch"


def test_a_room_that_was_taken_away_is_the_fault_of_its_whole_table(folder, monkeypatch):
    def fail(reference):
        raise ImportError(_ring.missing_room(reference))

    monkeypatch.setattr(_ring, "load", fail)
    (folder / "coe.toml").write_text(f"{AGENTS}{CLUSTERER}{POLICY}[claims]\n")
    with pytest.raises(ConfigurationError, match=r"needs coe_agents\.claims") as refused:
        load(folder / "coe.toml").create_graph()
    assert refused.value.field == "claims"


def test_a_compared_policy_of_fixed_rounds_takes_as_many(folder):
    code = "from coe_agents import RegimePolicy\nfrom coe_agents.policy import FixedRounds\n"
    name = module(folder, f"{code}def twice(): return FixedRounds(2, then=RegimePolicy())\n")
    part = f'[policy]\nkind = "{name}:twice"\n'
    (folder / "coe.toml").write_text(f"{AGENTS}{CLUSTERER}{part}")
    assert _policy_of_file(folder / "coe.toml", "twice").rules.bounds.max_rounds == 2
    (folder / "coe.toml").write_text(f"{AGENTS}{CLUSTERER}{part}[graph]\nmax_rounds = 1\n")
    with pytest.raises(ConfigurationError, match=r"graph\.max_rounds"):
        _policy_of_file(folder / "coe.toml", "twice")
