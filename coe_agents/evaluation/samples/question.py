"""Owns one question of samples: its lines, read from where they are, as one record in canonical order."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from coe_agents.documents import parse_json
from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.index import Runs
from coe_agents.evaluation.samples.line import Sample, to_sample


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


class QuestionReader:
    """Reads questions whose places are known, from files that are open."""

    def __init__(self, paths: Sequence[Path], files: Sequence[IO[bytes]]) -> None:
        """Takes the files, and the path that a message names for each."""
        self._paths, self._files = paths, files

    def read(self, identifier: str, runs: Runs) -> SampledQuestion:
        """Returns the question whose lines are in these places, and valid.

        Raises:
            SamplesError: Two of its lines are of the same response, or ask something else.
        """
        lines = list(self._lines(runs))
        samples = [
            to_sample(record, path, line, is_checked=True)
            for (path, line, _), record in zip(lines, _parse([raw for *_, raw in lines]), strict=True)
        ]
        keys = [(sample["agent"], sample["round"], sample["index"]) for sample in samples]
        texts = {sample["question"] for sample in samples}
        if len(set(keys)) < len(keys) or len(texts) > 1:
            raise self._conflict(identifier, runs, keys, [sample["question"] for sample in samples])
        ordered = [samples[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]  # the canonical order
        lists = sorted({tuple(sample["references"]) for sample in ordered})  # in an order that no agent decides
        return SampledQuestion(
            id=identifier,
            text=ordered[0]["question"],
            references=tuple(dict.fromkeys(reference for references in lists for reference in references)),
            responses=tuple([sample for sample in ordered if sample["error"] is None]),
            failures=tuple([sample for sample in ordered if sample["error"] is not None]),
        )

    def _lines(self, runs: Runs) -> Iterator[tuple[Path, int, bytes]]:
        """Yields the file, number and text of each line of a question."""
        numbers = iter(runs)
        for number, first, start, n_lines in zip(numbers, numbers, numbers, numbers, strict=True):
            file, path = self._files[number], self._paths[number]
            file.seek(start)
            for line in range(first, first + n_lines):
                yield path, line, file.readline()

    def _conflict(
        self, identifier: str, runs: Runs, keys: Sequence[tuple[str, int, int]], texts: Sequence[str]
    ) -> SamplesError:
        """Returns the error of the first line that repeats another one's key, or asks something else."""
        seen: dict[tuple[str, int, int], tuple[Path, int]] = {}
        for (path, line, _), key, text in zip(self._lines(runs), keys, texts, strict=True):
            if key in seen:
                return SamplesError(
                    f"{path}:{line}: question {identifier!r} has this agent, round and index at "
                    f"{':'.join(map(str, seen[key]))} already",
                    hint="Pass each file once, and give each response of an agent its own index",
                )
            if text != texts[0]:
                break
            seen[key] = path, line
        return SamplesError(
            f"{path}:{line}: another question has the id {identifier!r} already",
            hint="Give every question an id of its own, across all files",
        )


def _parse(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Returns the objects of lines that were read before; many are read faster at once."""
    try:
        return list(json.loads(b"[%s]" % b",".join(lines)))
    except ValueError:  # a byte order mark, or another encoding
        return [parse_json(line) for line in lines]
