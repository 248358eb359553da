import ast
import json
import re
import warnings
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import coe_agents.cli
from coe_agents.cli import terminal
from tests.cli.command import run

FOLDER = Path(coe_agents.cli.__file__).parent
KEY = "sk-planted-0123456789"
EVIL = "\x1b[31mred\x07\x00\x9b2J\u202e"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(terminal, "_HIDDEN", set())


def shown_in(text):
    return [
        form
        for form in (KEY, *(KEY[place : place + 8] for place in range(len(KEY) - 7)))
        if form in text
    ]


def is_clean(text):
    return all(each.isprintable() or each == "\n" for each in text)


def test_no_command_prints_past_the_terminal():
    """No call of `print`, of a stream's `write` or of `Console` stands in a command; `terminal` has them all."""
    for path in sorted(FOLDER.rglob("*.py")):
        if path.name in ("terminal.py", "interrupts.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called not in (
                "print",
                "Console",
                "typer.echo",
                "typer.secho",
                "rich.print",
                "os.write",
            ), path
            assert not re.fullmatch(r"sys\.(stdout|stderr)\.write", called), path
            imported = node.module if isinstance(node, ast.ImportFrom) else ""
            names = (
                {name.name for name in node.names} if isinstance(node, ast.ImportFrom) else set()
            )
            assert not (imported == "coe_agents.text" and "for_terminal" in names), (
                f"{path}: use that of `terminal`"
            )


def test_lines_are_clean_and_stay_apart(capsys, monkeypatch):
    monkeypatch.setenv("INVENTED_API_KEY", KEY)
    terminal.print_lines(f"one {EVIL}\n\n  two {KEY[2:14]} three")
    out = capsys.readouterr().out
    assert is_clean(out)
    assert len(out.splitlines()) == 3
    assert not shown_in(out)


def test_json_is_ascii_and_without_keys(capsys):
    terminal.hide({KEY})
    terminal.print_json({"a": [EVIL, "\x7f", KEY], KEY: 0.5})
    out = capsys.readouterr().out
    assert out.isascii()
    assert is_clean(out)
    assert json.loads(out)["a"][:2] == [EVIL, "\x7f"]
    assert not shown_in(out)
    with pytest.raises(ValueError, match="not JSON compliant"):
        terminal.print_json({"a": float("nan")})


def test_a_console_shows_no_control_character_that_a_display_forgot(capsys):
    table = Table()
    table.add_column(f"head {EVIL}")
    table.add_row(Text(EVIL))
    console = terminal.create_console()
    console.print(table)
    console.print(EVIL, Text(f"x{EVIL}"))
    out = capsys.readouterr().out
    assert is_clean(out)
    assert "\ufffd" in out


def test_lines_of_a_table_are_not_padded_where_no_terminal_is(capsys):
    table = Table(box=None)
    table.add_column("x")
    table.add_row(Text("a  b"))
    table.add_row(Text("longer"))
    terminal.create_console().print(table)
    assert capsys.readouterr().out.splitlines() == [" x", " a  b", " longer"]


def test_warnings_are_one_clean_line(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        terminal.show_warnings()
        warnings.warn(f"it does not hold{EVIL}", stacklevel=1)
    told = capsys.readouterr().err
    assert told.startswith("coe-agents: note: it does not hold")
    assert is_clean(told)
    assert told.count("\n") == 1


@pytest.mark.parametrize("command", [["config", "check"], ["ask", "Who?", "--config"]])
def test_a_key_in_the_query_of_an_address_is_not_shown(tmp_path, command):
    path = tmp_path / "coe.toml"
    address = f"http://127.0.0.1:9/v1?sig={KEY}&x=1"
    path.write_text(
        f'[[agents]]\nname = "a"\nprovider = "openai"\nmodel = "m"\nbase_url = "{address}"\n'
        'retries = 0\n[policy]\nkind = "threshold"\nmax_coe = 1\n[clusterer]\nkind = "normalized"\n'
    )
    done = run(*command, path, code=None)
    assert not shown_in(done.stdout + done.stderr)
    assert "Traceback" not in done.stderr
