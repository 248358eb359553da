"""Owns the loop of a run: items are asked concurrently, and each decision is on the disk before the next question."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from coe_agents.errors import StoreError
from coe_agents.evaluation.decisions import DECIDER, PRICES, SECONDS, to_item
from coe_agents.evaluation.samples.folder import write
from coe_agents.evaluation.samples.store import Store, Unit
from coe_agents.runs.items import RunItem

Row = dict[str, Any]


class Decides(Protocol):
    """What decides an item, such as a `RunGroup`."""

    @property
    def at_once(self) -> int: ...
    async def decide(self, item: RunItem) -> tuple[Row, float]: ...


class Timings:
    """The seconds of each item, in a file of their own: they differ each time. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SECONDS

    def __enter__(self) -> "Timings":
        if self._path.exists():
            content = self._path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]  # a kill may have left half a line
            if whole != content:
                write(self._path, whole)
        self._file = self._path.open("ab", buffering=0)
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def append(self, id: str, seconds: float) -> None:
        """Notes how long an item took; the last note of an item counts."""
        self._file.write(json.dumps({"id": id, "seconds": round(seconds, 4)}).encode() + b"\n")


def units_of(items: Sequence[RunItem]) -> dict[Unit, int]:
    """Returns what a run consists of, as `Store` takes it: a line for each item."""
    return {(item.id, DECIDER): 1 for item in items}


def keep_prices(folder: Path, prices: Mapping[str, Mapping[str, float]]) -> None:
    """Writes the prices of the configuration beside the decisions, or removes them."""
    if prices:
        write(folder / PRICES, json.dumps(prices, indent=2).encode() + b"\n")
    else:
        (folder / PRICES).unlink(missing_ok=True)


def kept_rows(store: Store) -> Iterator[Row]:
    """Yields the lines that a store holds.

    Raises:
        StoreError: If one is not a decision.
    """
    for number, line in enumerate(store.path.read_bytes().splitlines(), start=1):
        row = json.loads(line)
        try:
            to_item(row)
        except ValueError as error:
            raise StoreError(
                f"{store.path}:{number}: this is not a decision of a run: {error}", hint="Choose another folder"
            ) from error
        yield row


async def decide_all(
    items: Sequence[RunItem],
    group: Decides,
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

    waiting = iter(pending_items(items, store))
    tasks = [asyncio.create_task(work(waiting)) for _ in range(group.at_once)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    store.finish()


def pending_items(items: Sequence[RunItem], store: Store) -> list[RunItem]:
    """Returns the items that a store lacks, in order."""
    pending = {name for name, _ in store.pending_units()}
    return [item for item in items if item.id in pending]


def keep(store: Store, timings: Timings, row: Row, seconds: float) -> None:
    """Keeps a decision; its seconds first, so that none is without."""
    if row["error"] is None:
        timings.append(row["id"], seconds)
    store.append((row["id"], DECIDER), [row])
