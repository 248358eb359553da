"""Owns the `datasets` library: records from the hub, or from a folder or Parquet file that it reads the same way."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from coe_agents.errors import DatasetError
from coe_agents.evaluation.datasets.question import Place

DEFAULT_SPLIT = "validation"


@dataclass(frozen=True, slots=True)
class Published:
    """A dataset on the hub.

    Attributes:
        path: Its name there.
        config: Its configuration; None where it has but one.
    """

    path: str
    config: str | None = None

    def __str__(self) -> str:
        return self.path if self.config is None else f"{self.path} ({self.config})"


PUBLISHED = {
    "triviaqa": Published("mandarjoshi/trivia_qa", "rc.nocontext"),
    "squad": Published("rajpurkar/squad"),
    "squad_v2": Published("rajpurkar/squad_v2"),
    "nq_open": Published("google-research-datasets/nq_open"),
    "truthfulqa": Published("truthfulqa/truthful_qa", "generation"),
}


def hub_records(published: Published, split: str) -> Iterator[tuple[Place, Any]]:
    """Yields the records of a split, and the number of each; `published.path` may be a folder or a Parquet file.

    Raises:
        DatasetError: If the hub cannot be reached, or has no such dataset, configuration or split.
        ImportError: If `datasets` is not installed.
    """
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise ImportError(f'{published} needs datasets; pip install "coe-agents[evaluation]"') from error
    name = f"{published}, {split}"
    try:
        if published.path.endswith(".parquet"):
            rows = datasets.load_dataset("parquet", data_files={split: published.path}, split=split)
        else:
            rows = datasets.load_dataset(published.path, published.config, split=split)
    except Exception as error:  # its own, those of the hub's client and of pyarrow have no base of their own
        raise DatasetError(
            f"{name} cannot be loaded: {type(error).__name__}: {error}",
            hint="Check the split and the connection, or pass the dataset's official file",
        ) from error
    for number, row in enumerate(rows):
        yield partial("{}: row {}".format, name, number), row
