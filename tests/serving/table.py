"""The table of clients in `docs/guides/clients.md`: the tests add the rows that they see, and compare."""

from tests.serving.server import ROOT

_ROWS: list[str] = []


def seen(client: str, done: str, result: str) -> None:
    """Adds a row to the table."""
    _ROWS.append(f"| {client} | {done} | {result} |")


def compare() -> None:
    """Prints the rows so far; all must be in the documentation."""
    print("\n".join(_ROWS))
    shown = (ROOT / "docs" / "guides" / "clients.md").read_text().splitlines()
    missing = [row for row in _ROWS if row not in shown]
    assert not missing, "\n".join(["docs/guides/clients.md lacks", *missing])
