"""Trains the models of tinyworld: `python -m tools.tinyworld [NAME ...] [--out FOLDER] [--steps N]`."""

import argparse
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from queue import Empty
from typing import Any

from rich.progress import Progress, TextColumn, TimeElapsedColumn

from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder, writer_of
from coe_agents.tinyworld.facts import MODELS
from tools.tinyworld.training import train_and_report


def main() -> None:
    """Parses the command line and trains, as many models at once as there are processors."""
    parser = argparse.ArgumentParser(prog="python -m tools.tinyworld", description=__doc__)
    first, writers = [ENTAILMENT_MODEL, *MODELS], [writer_of(name) for name in MODELS]
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join([*first, *writers])}; default: all"
    )
    parser.add_argument(
        "--out", type=Path, default=model_folder("."), help="default: where the shipped ones are"
    )
    parser.add_argument("--steps", type=int, help="default: as many as the shipped ones took")
    args = parser.parse_args()
    names = args.names or [*first, *writers]
    if unknown := set(names) - {*first, *writers}:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    columns = (
        *Progress.get_default_columns(),
        TimeElapsedColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
    )
    # spawned, since a fork of a process with threads may hang
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, Progress(*columns) as bar:
        reports, sizes = manager.Queue(), list[tuple[str, int, int, float]]()
        for part in (
            set(names) & set(first),
            set(names) & set(writers),
        ):  # a writer starts from its trained model
            if part:
                sizes += _train(
                    [name for name in names if name in part], args, bar, reports, context
                )
    for name, n_parameters, n_bytes, seconds in sorted(sizes):
        size = f"{n_parameters / 1e6:.2f} M parameters, {n_bytes / 1e6:.2f} MB"
        print(f"{name}: {size}, {seconds:.0f} s, {args.out / name}")
    print(f"{sum(n_bytes for _, _, n_bytes, _ in sizes) / 1e6:.2f} MB together")


def _train(
    names: list[str], args: argparse.Namespace, bar: Progress, reports: Any, context: Any
) -> list[Any]:
    tasks = {name: bar.add_task(name, total=None, loss=float("nan")) for name in names}
    with ProcessPoolExecutor(
        max_workers=min(len(names), os.cpu_count() or 1), mp_context=context
    ) as pool:
        futures = [
            pool.submit(train_and_report, name, args.out / name, args.steps, reports)
            for name in names
        ]
        while not all(future.done() for future in futures):
            try:
                name, done, total, loss = reports.get(timeout=0.5)
                bar.update(tasks[name], completed=done, total=total, loss=loss)
            except Empty:
                continue
        return [future.result() for future in as_completed(futures)]


if __name__ == "__main__":
    main()
