"""What earlier versions had is refused by an error that says what replaces it, and the changelog has a line on it."""

from importlib import import_module
from pathlib import Path

import pytest

from coe_agents import _removed, create_coe_graph
from coe_agents.config.schema import read_config
from coe_agents.errors import ConfigurationError

ROOT = Path(__file__).parents[1]
FUNCTIONS = {"create_coe_graph": create_coe_graph}
ALL = [(owner, name) for owner, names in _removed.REMOVED.items() for name in names]
MODULES = [(owner, name) for owner, name in ALL if owner.startswith("coe_agents.")]
FIELDS = [(owner, name) for owner, name in ALL if owner not in FUNCTIONS and (owner, name) not in MODULES]


@pytest.mark.parametrize(("module", "name"), MODULES)
def test_a_name_of_a_module(module, name):
    with pytest.raises(ImportError, match=f"{name} cannot be imported from {module}: it was removed. ") as refused:
        exec(f"from {module} import {name}")
    assert _removed.REMOVED[module][name] in str(refused.value)
    assert not hasattr(import_module(module), "never_there")


@pytest.mark.parametrize(("function", "name"), [each for each in ALL if each[0] in FUNCTIONS])
def test_an_argument(function, name):
    with pytest.raises(TypeError, match=f'{function} must be called without "{name}", which was removed. ') as refused:
        FUNCTIONS[function]([], policy=None, **{name: None})
    assert _removed.REMOVED[function][name] in str(refused.value)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'never_there'"):
        FUNCTIONS[function]([], policy=None, never_there=None)


@pytest.mark.parametrize(("table", "name"), FIELDS)
@pytest.mark.parametrize("value", ["{name} = 1\n", "[{table}.{name}]\nstart = 1\n"])
def test_a_field_of_the_configuration(table, name, value):
    text = '[[agents]]\nname = "a"\nprovider = "tinyworld"\nmodel = "tiny-llama"\n'
    text += f"[{table}]\n" + value.format(table=table, name=name)
    with pytest.raises(ConfigurationError) as refused:
        read_config(text, Path("coe.toml"))
    assert f"coe.toml:6: {table}.{name}: this field was removed. " in str(refused.value)
    assert _removed.REMOVED[table][name] in str(refused.value)


@pytest.mark.parametrize(("owner", "name"), ALL)
def test_the_changelog_has_a_line_on_it(owner, name):
    _, _, table = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("| Removed | In its place |")
    removed = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines() if line.startswith("|")]
    assert any(f"`{name}" in cell for cell in removed), f"{owner}: {name}"
