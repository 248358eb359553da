"""Owns one question of samples: its lines as one record in canonical order."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.line import Sample, to_sample
from coe_agents.files import parse_json


@dataclass(frozen=True, slots=True)
class SampledQuestion:
    """All samples of one question, in canonical order.

    Attributes:
        text: What was asked; "" where not known.
        references: The accepted answers of all its samples, each once.
        responses: The samples without an `error`.
        failures: The samples whose `error` is set.
    """

    id: str
    text: str
    references: tuple[str, ...]
    responses: tuple[Sample, ...]
    failures: tuple[Sample, ...]


def join_lines(identifier: str, lines: Sequence[tuple[Path, int, bytes]]) -> SampledQuestion:
    """Returns the question of lines that are valid, each with its file and number.

    A SamplesError if two of them are of the same response, or ask something else.
    """
    samples = list(map(to_sample, _parse([raw for *_, raw in lines])))
    seen: dict[tuple[str, int, int], int] = {}
    for place, (sample, (path, line, _)) in enumerate(zip(samples, lines, strict=True)):
        key = sample["agent"], sample["round"], sample["index"]
        if key in seen:
            raise SamplesError(
                f"{path}:{line}: question {identifier!r} has this agent, round and index at "
                f"{':'.join(map(str, lines[seen[key]][:2]))} already",
                hint="Pass each file once, and give each response of an agent its own index",
            )
        if sample["question"] != samples[0]["question"]:
            raise SamplesError(
                f"{path}:{line}: another question has the id {identifier!r} already",
                hint="Give every question an id of its own, across all files",
            )
        seen[key] = place
    ordered = [samples[seen[key]] for key in sorted(seen)]  # the canonical order
    lists = sorted({tuple(sample["references"]) for sample in ordered})  # in an order that no agent decides
    return SampledQuestion(
        id=identifier,
        text=ordered[0]["question"],
        references=tuple(dict.fromkeys(reference for references in lists for reference in references)),
        responses=tuple([sample for sample in ordered if sample["error"] is None]),
        failures=tuple([sample for sample in ordered if sample["error"] is not None]),
    )


def _parse(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Returns the objects of lines that were read before; many are read faster at once."""
    try:
        return list(json.loads(b"[%s]" % b",".join(lines)))
    except ValueError:  # a byte order mark, or another encoding
        return [parse_json(line) for line in lines]
