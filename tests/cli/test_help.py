import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from coe_agents.cli.app import app

runner = CliRunner()


def commands(path: tuple[str, ...] = (), group: Any = None) -> list[tuple[tuple[str, ...], Any]]:
    found = []
    for name, command in (group or typer.main.get_command(app)).commands.items():
        found.append(((*path, name), command))
        if hasattr(command, "commands"):
            found += commands((*path, name), command)
    return found


def letters(text: str) -> str:
    """Returns the text without white space, frames and the back quotes of Markdown; line breaks do not count then."""
    return re.sub(r"[\s│╭╮╰╯─`]", "", text)


@pytest.mark.parametrize(
    ("path", "command"), commands(), ids=[" ".join(path) for path, _ in commands()]
)
def test_help_shows_every_character_and_a_narrow_terminal_cuts_no_word_in_two(path, command):
    shown, narrow = (
        runner.invoke(
            app, [*path, "--help"], env={"COLUMNS": f"{width}"}, terminal_width=width
        ).stdout
        for width in (200, 80)
    )
    whole = letters(shown)
    for parameter in command.params:
        for word in (getattr(parameter, "help", None) or "").split():
            assert letters(word) in whole, f"{' '.join(path)} {parameter.name}: {word}"
    for word in (command.help or "").split():
        assert letters(word) in whole
    types = re.compile(r"<[a-z][\w|\[\]. -]*(.?)")
    assert [
        line for line in narrow.splitlines() if any(end != ">" for end in types.findall(line))
    ] == []


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_question_on_standard_input_is_refused(text):
    result = runner.invoke(app, ["ask", "-"], input=text)
    assert result.exit_code == 2
