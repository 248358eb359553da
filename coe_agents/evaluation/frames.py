"""Owns the step between data frames of pandas and rows of plain values."""

import json
from typing import Any

from coe_agents.types import JsonObject


def import_pandas() -> Any:
    """Returns pandas; an ImportError says how to install it."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise ImportError('a data frame needs pandas; pip install "coe-agents[plots]"') from error
    return pandas


def is_frame(value: object) -> bool:
    """Returns whether this is a data frame: of pandas, or of a library that converts to it."""
    return hasattr(value, "to_pandas") or hasattr(value, "to_json")


def to_pandas(frame: Any) -> Any:
    """Returns a data frame of pandas."""
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame


def plain_rows(frame: Any) -> list[JsonObject]:
    """Returns the rows of a data frame, without what is missing in them."""
    rows = []
    content = to_pandas(frame).to_json(orient="records")
    for row in json.loads(content):
        present = {name: value for name, value in row.items() if value is not None}
        rows.append(present)
    return rows
