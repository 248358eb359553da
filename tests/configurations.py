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
