"""Owns the step between data frames of pandas and rows of plain values."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from coe_agents.checks import one_of

_KINDS = {"index": int, "round": int, "n_tokens": int, "correct": bool}


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


def plain_rows(frame: Any) -> list[dict[str, Any]]:
    """Returns the rows of a data frame, without what is missing in them."""
    if hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    rows = []
    for row in json.loads(frame.to_json(orient="records")):
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def rows_of_frame(frame: Any, columns: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yields the rows of a data frame as lines of samples; `columns` has the names of the frame by ours."""
    named = list(map(str, frame.columns))
    for theirs in columns.values():
        one_of(theirs, 'every value of "columns"', named, advice="Name a column of the frame")
    places = Counter[tuple[str, str]]()
    for row in plain_rows(frame):
        for ours, theirs in columns.items():
            if theirs in row:
                row[ours] = row.pop(theirs)
        if "id" not in row and "question" in row:
            row["id"] = row["question"]
        if "id" in row:
            row["id"] = str(row["id"])
        if isinstance(row.get("references"), str):
            row["references"] = [row["references"]]
        # a column with missing values holds floats
        for name, kind in _KINDS.items():
            if isinstance(row.get(name), float):
                row[name] = kind(row[name])
        response = (row.get("id", ""), row.get("agent", ""))
        row.setdefault("index", places[response])
        places[response] += 1
        yield row
