"""The tables of `docs/guides/clients.md`: a test that has seen a client work prints its row, which must be there."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "clients.md"
CLIENTS = {
    "openai": ("`openai` SDK", None),
    "chat_openai": ("`ChatOpenAI`, Python", None),
    "openai_agents": ("openai-agents", "agents"),
    "pydantic_ai": ("pydantic-ai", "pydantic"),
    "instructor": ("instructor", "instructor"),
    "litellm": ("litellm", "litellm"),
    "llama_index": ("llama-index", "llama"),
    "llm": ("`llm`", "llm"),
    "smolagents": ("smolagents", "smol"),
    "autogen": ("AutoGen", "autogen"),
    "dspy": ("DSPy", "litellm"),
    "ai_sdk.mjs": ("AI SDK", "js"),
    "chat_openai.mjs": ("`ChatOpenAI`, JavaScript", "js"),
}
"""The name of each client and the folder of its environment, by its script in `tests/clients`; None if it is here."""
KINDS = ("answer", "refusal", "call", "structured", "failure")
_VERSION = re.compile(r" \d+(\.\d+)+(?= \|)")
_SENTENCE = re.compile(r"No answer: [^.]*")
_EXPECTED = {"answer": "Paris", "call": "pay", "structured": "Paris"}


def seen(client: str, done: str, result: str) -> None:
    """Prints a row of the tables; the documentation must have it."""
    _print(f"| {client} | {done} | {result} |")


def shown_by(script: str, version: str, form: str, shown: dict[str, object]) -> dict[str, str]:
    """Prints the row of what a client shows in one form of asking, by kind of question; returns its cells."""
    cells = {kind: _cell(kind, shown[kind]) for kind in KINDS}
    _print(f"| {CLIENTS[script][0]} {version} | {form} | {' | '.join(cells.values())} |")
    return cells


def _cell(kind: str, said: object) -> str:
    if said is None:
        return "–"
    if isinstance(said, dict):
        is_told = _SENTENCE.search(said["message"]) or "no model of the group" in said["message"]
        return f"`{said['error']}`{'' if is_told else ', without the sentence'}"
    text = str(said)
    if not text.strip():
        return "nothing"
    if kind == "refusal":
        times = len(_SENTENCE.findall(text))
        assert times, text
        return "the sentence" if times == 1 else "the sentence, twice"
    assert _EXPECTED[kind] in text, text
    return {"answer": "the text", "call": "the call", "structured": "the object"}[kind]


def _print(row: str) -> None:
    print(row)
    # `make test-newest` has other versions than the page
    rows = [_VERSION.sub("", line) for line in PAGE.read_text("utf-8").splitlines()]
    assert _VERSION.sub("", row) in rows, f"docs/guides/clients.md lacks the row\n{row}"
