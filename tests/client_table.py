"""The tables of `docs/guides/clients.md`: a test that has seen a client work prints its row, which must be there."""

from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "clients.md"


def seen(client: str, done: str, result: str) -> None:
    """Prints a row of the tables; the documentation must have it."""
    row = f"| {client} | {done} | {result} |"
    print(row)
    assert row in PAGE.read_text("utf-8").splitlines(), f"docs/guides/clients.md lacks the row\n{row}"
