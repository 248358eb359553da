"""Owns the step between a clusterer and what is recorded of it, by which a run's answers are judged.

A name and a recorded table are read as a section of a configuration would be, so that each clusterer is made in one
place.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from coe_agents.clustering import Clusterer
from coe_agents.config import schema
from coe_agents.config.build import clusterer_of
from coe_agents.config.schema import Config, describe_unknown
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation.origin import Judging
from coe_agents.extensions import find_extension
from coe_agents.text import redact_all

NAMES = ("normalized", "actions", "tinyworld")
"""The clusterers that a name is enough for, besides those of other packages."""
_TINYWORLD = {"kind": "entailment", "model": "tinyworld"}
_OF_MACHINE = {"base_url", "api_key_env", "device"}
_SECTION: TypeAdapter[Any] = TypeAdapter(schema.ClustererSection)


def judging_of(config: Config | None, *, is_tinyworld: bool) -> Judging:
    """Returns how a run of a configuration, None for tinyworld's, is judged.

    Where the dataset is tinyworld (`is_tinyworld`) and its own model clusters, that model says what is right, too: its
    language models answer in sentences, which no reference equals.
    """
    clusterer = "tinyworld" if config is None else describe(config)
    return Judging(clusterer, "entailment") if is_tinyworld and clusterer == "tinyworld" else Judging(clusterer)


def describe(config: Config) -> str | dict[str, Any]:
    """Returns the clusterer of a configuration by its name, else as its table, without addresses and keys."""
    table, tinyworlds = (
        section.model_dump(mode="json", exclude=_OF_MACHINE)
        for section in (config.clusterer, _SECTION.validate_python(_TINYWORLD))
    )
    if table == tinyworlds:
        return "tinyworld"
    told: dict[str, Any] = redact_all({name: value for name, value in table.items() if value != {}}, config.secrets)
    return str(told["kind"]) if set(told) == {"kind"} else told


def create_named_clusterer(name: str) -> Clusterer:
    """Returns the clusterer of a name: one without a model, tinyworld's, or one of the user's; else a ValueError."""
    if name not in NAMES and find_extension("clusterer", name) is None:
        raise ValueError(describe_unknown("clusterer", NAMES, name))
    table = _TINYWORLD if name == "tinyworld" else {"kind": name}
    return clusterer_of(_SECTION.validate_python(table), folder=Path())


def create_recorded_clusterer(recorded: str | Mapping[str, Any]) -> Clusterer:
    """Returns the clusterer that a run recorded.

    A record is data that may come from anybody: it names no module whose code is run, and no server that is asked.

    Raises:
        ConfigurationError: It needs an address, options or code that only a configuration can give.
    """
    try:
        if isinstance(recorded, str) and ":" not in recorded:
            return create_named_clusterer(recorded)
        section = _SECTION.validate_python({"kind": recorded} if isinstance(recorded, str) else recorded)
        is_local = isinstance(section, schema.EmbeddingClusterer) and section.provider == "huggingface"
        if isinstance(section, schema.EntailmentClusterer | schema.ActionsClusterer) or (
            is_local and not section.options
        ):
            return clusterer_of(section, folder=Path())
    except ValueError as error:  # also pydantic's
        raise _not_rebuilt(recorded, str(error)) from error
    raise _not_rebuilt(recorded, "it takes an address, options or code of yours")


def _not_rebuilt(recorded: object, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the clusterer that the run recorded, {recorded}, cannot be created from its record: {why}",
        hint="Name it: --config FILE, the configuration of the run, or --clusterer NAME",
    )
