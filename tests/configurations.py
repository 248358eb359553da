"""Tables of configuration files."""

import json
from typing import Any


def table(header: str, **fields: Any) -> str:
    """Returns a table of TOML with a line for each field; a header in brackets is that of one of several."""
    return f"[{header}]\n" + "".join(
        f"{name} = {_value(value)}\n" for name, value in fields.items()
    )


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_value(each)}' for name, each in value.items())} }}"
    return json.dumps(value)


_ASKED = {
    "model": "m",
    "base_url": "{url}",
    "n_samples": 2,
    "on_greedy": "trust",
    "options.max_retries": 0,
}
SERVED = table("[agents]", name="served", provider="openai", **_ASKED) + table(
    "clusterer", kind="normalized"
)
SERVED += table("policy", kind="threshold") + "max_coe = {max_coe}\n"
"""A group of one agent behind a server: its `url`, and the threshold `max_coe`, are to be filled in."""
