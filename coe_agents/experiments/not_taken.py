"""Owns what a replay does not take of a configuration: how its agents are asked, and how answers are compared."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from coe_agents.clustering import NormalizedMatch
from coe_agents.config.sampling_group import describe
from coe_agents.config.schema import AgentConfig, Config
from coe_agents.evaluation.origin import change_in_words
from coe_agents.presets import preset
from coe_agents.text import one_line, redact_all
from coe_agents.types import Fields

_ASKED = ("temperature", "system_prompt", "max_tokens", "stated_confidence", "options")
"""The fields of an agent, besides its model, that change what it says; another seed only draws again."""
_PLURAL = ("[answers]", "options")
_SHOWN = 60
"""The most characters of a value that a note shows."""


def not_taken(
    config: Config, *, clusterer: str | Fields, answers: str | None, asked: Mapping[str, Fields]
) -> list[str]:
    """Returns a line on each setting in which a file differs from the saved responses on which it is replayed.

    Args:
        config: The file.
        clusterer: What compares the saved responses, as it is recorded.
        answers: The preset by which they were asked for; "" for none, None where that is not known.
        asked: By the name of an agent, what is recorded of how it was asked.
    """
    changes: dict[str, list[str]] = {}
    of_clusterer = change_in_words(clusterer, describe(config))
    if of_clusterer is not None:
        changes["clusterer"] = [of_clusterer]

    of_file = _answers_of(config)
    if answers is not None and answers != of_file:
        changes["[answers]"] = [_in_place(answers, of_file)]

    for section in config.agents:
        recorded = asked.get(section.name, {})
        for name, there, here in _differences(section, recorded, config):
            changes.setdefault(name, []).append(f"{section.name} has {_in_place(there, here)}")

    lines = []
    for name, each in changes.items():
        is_or_are = "are" if name in _PLURAL else "is"
        lines.append(f"its {name} {is_or_are} not taken: {'; '.join(each)}")
    return lines


def _answers_of(config: Config) -> str:
    """Returns what a run of a configuration would record of its preset of answers."""
    form = config.answers
    return "" if form is None else preset(form.kind, NormalizedMatch(), form.instruction).recorded


def _differences(
    section: AgentConfig, recorded: Fields, config: Config
) -> Iterator[tuple[str, Any, Any]]:
    """Yields what an agent was asked otherwise than its section says: the setting, the record's and the file's value.

    What is not recorded is not known to differ.
    """
    model = recorded.get("model")
    if model is not None:
        here = section.model
        if recorded.get("provider") is not None:
            model = f"{recorded['provider']}:{model}"
            here = f"{section.provider}:{here}"
        if model != here:
            yield "model", model, here

    of_file = redact_all(section.model_dump(include=set(_ASKED)), config.secrets)
    for name in _ASKED:
        there = recorded.get(name)
        here = of_file[name]
        # nothing is recorded for an agent that was not asked how sure it is
        is_known = name in recorded or (name == "stated_confidence" and bool(recorded))
        if is_known and _said(there) != _said(here):
            yield name, there, here


def _said(value: Any) -> Any:
    """Returns a value, None where it says as little as none: a 0 says something."""
    return None if value is False or value in ("", {}) else value


def _in_place(there: Any, here: Any) -> str:
    return f"{_shown(there)} in place of {_shown(here)}"


def _shown(value: Any) -> str:
    said = _said(value)
    if said is None:
        return "none"
    text = said if isinstance(said, str) else json.dumps(said)
    return one_line(text, _SHOWN)
