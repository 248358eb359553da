"""Owns one question of samples: its lines, read from where they are, as one record in canonical order."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.line import to_sample
from coe_agents.evaluation.samples.ranges import Runs
from coe_agents.files import parse_json
from coe_agents.types import SampledQuestion


class QuestionReader:
    """Reads questions whose places are known, from files that are open."""

    def __init__(self, paths: Sequence[Path], files: Sequence[IO[bytes]]) -> None:
        self._paths, self._files = paths, files

    def read(self, identifier: str, runs: Runs) -> SampledQuestion:
        """Returns a question; a SamplesError if two of its lines are of the same response, or ask something else."""
        lines = list(self._lines(runs))
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

    def _lines(self, runs: Runs) -> Iterator[tuple[Path, int, bytes]]:
        numbers = iter(runs)
        for number, first, start, n_lines in zip(numbers, numbers, numbers, numbers, strict=True):
            file, path = self._files[number], self._paths[number]
            file.seek(start)
            for line in range(first, first + n_lines):
                yield path, line, file.readline()


def _parse(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Returns the objects of lines that were read before; many are read faster at once."""
    try:
        return list(json.loads(b"[%s]" % b",".join(lines)))
    except ValueError:  # a byte order mark, or another encoding
        return [parse_json(line) for line in lines]
