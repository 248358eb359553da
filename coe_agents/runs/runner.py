"""Owns the loop of a run: items are asked concurrently, and each decision is on the disk before the next question."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coe_agents._files import append, write
from coe_agents.evaluation.datasets.on_disk import DiskSequence
from coe_agents.evaluation.datasets.subsets import draw_key
from coe_agents.evaluation.decisions import DECIDER, PRICES, SECONDS
from coe_agents.evaluation.runner import run_all
from coe_agents.evaluation.samples.store import Store, Unit
from coe_agents.runs.group import RunGroup
from coe_agents.runs.items import RunItem

Row = dict[str, Any]


class Timings:
    """The seconds of each item, in a file of their own: they differ each time. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SECONDS

    def __enter__(self) -> "Timings":
        self._file = self._path.open("ab", buffering=0)
        self._file.truncate(_end_of_lines(self._path))  # a kill may have left half a line
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def append(self, id: str, seconds: float) -> None:
        """Notes how long an item took; the last note of an item counts.

        Raises:
            OSError: If it cannot be written.
        """
        line = json.dumps({"id": id, "seconds": round(seconds, 4)}).encode() + b"\n"
        append(self._file.fileno(), line, path=self._path)


def _end_of_lines(path: Path) -> int:
    """Returns where the last complete line of a file ends."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 4096)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


class Units(Mapping[Unit, int]):
    """What a run consists of, as `Store` takes it: a line for each item; nothing of the items is in memory.

    Args:
        items: In the order of `seed`.
        seed: Of the run.
    """

    def __init__(self, items: DiskSequence[RunItem], *, seed: int) -> None:
        self._items, self._seed = items, seed

    def __getitem__(self, unit: Unit) -> int:
        name, agent = unit
        if agent != DECIDER or self._items.place_of(draw_key("asked", self._seed, name)) is None:
            raise KeyError(unit)
        return 1

    def __iter__(self) -> Iterator[Unit]:
        return ((item.id, DECIDER) for item in self._items)

    def __len__(self) -> int:
        return len(self._items)


def keep_prices(folder: Path, prices: Mapping[str, Mapping[str, float]]) -> None:
    """Writes the prices of the configuration beside the decisions, or removes them."""
    if prices:
        write(folder / PRICES, json.dumps(prices, indent=2).encode() + b"\n")
    else:
        (folder / PRICES).unlink(missing_ok=True)


async def decide_all(
    items: Sequence[RunItem],
    group: RunGroup,
    store: Store,
    timings: Timings,
    *,
    on_item: Callable[[Row], None] = lambda row: None,
) -> None:
    """Asks the group the items that the store lacks, keeps every decision, and sorts the store.

    Raises:
        OSError: If a file cannot be written; earlier decisions are kept.
    """

    async def work(waiting: Iterator[RunItem]) -> None:
        for item in waiting:
            row, seconds = await group.decide(item)
            keep(store, timings, row, seconds)
            on_item(row)

    waiting = pending_items(items, store)
    await run_all(work(waiting) for _ in range(group.at_once))
    store.finish()


def pending_items(items: Iterable[RunItem], store: Store) -> Iterator[RunItem]:
    """Yields the items that a store lacks when their turn comes, in order."""
    return (item for item in items if not store.is_kept((item.id, DECIDER)))


def keep(store: Store, timings: Timings, row: Row, seconds: float) -> None:
    """Keeps a decision; its seconds first, so that none is without."""
    if row["error"] is None:
        timings.append(row["id"], seconds)
    store.append((row["id"], DECIDER), [row])
