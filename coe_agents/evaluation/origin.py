"""Owns how saved responses came about: what their run recorded of its agents, its prompt and its judge."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coe_agents.documents import parse_json
from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.folder import SETTINGS
from coe_agents.policy.guarantee import AskedAgent

JUDGED = "judged"
"""The key of a run's settings under which it is recorded how its answers are judged; see `Judging`."""
_PLAIN = {"instruction": "", "question": "{question}", "passages": False, "shots": 0}


@dataclass(frozen=True, slots=True)
class Judging:
    """How the answers of a run are judged.

    Attributes:
        clusterer: What puts equal answers together: a name as `--clusterer` takes it, or the table [clusterer] of a
            configuration.
        correctness: When an answer is right, as `--correctness` names it.
    """

    clusterer: str | Mapping[str, Any]
    correctness: str

    def to_json(self) -> dict[str, Any]:
        """Returns what is recorded."""
        return {"clusterer": self.clusterer, "correctness": self.correctness}


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known about how responses came about.

    Attributes:
        agents: How each agent was asked, by name.
        prompt: What was said around a question, as JSON; "" for nothing, None where not known.
        judging: How the answers are judged; None where not known.
    """

    agents: Mapping[str, AskedAgent] = field(default_factory=dict)
    prompt: str | None = None
    judging: Judging | None = None


def origin_of(paths: Iterable[Path]) -> Origin:
    """Returns what the runs recorded that wrote these files or folders; what they do not agree on is not known.

    Raises:
        SamplesError: If the settings of a run cannot be read.
    """
    found = [_read(path if path.is_dir() else path.parent) for path in paths]
    if not found or any(each != found[0] for each in found):
        return Origin()
    return found[0]


def _read(folder: Path) -> Origin:
    path = folder / SETTINGS
    if not path.is_file():
        return Origin()
    try:
        settings = parse_json(path.read_bytes())
        judged = settings.get(JUDGED)
        return Origin(
            agents={agent["name"]: _asked(agent) for agent in settings.get("agents", [])},
            prompt=_in_words(settings["prompt"]) if "prompt" in settings else None,
            judging=None if judged is None else Judging(judged["clusterer"], judged["correctness"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SamplesError(
            f"{path} does not hold the settings of a run: {type(error).__name__}: {error}",
            hint="Restore it, or move the samples to a folder without it",
        ) from error


def _asked(agent: Mapping[str, Any]) -> AskedAgent:
    return AskedAgent(
        model=agent.get("model"),
        temperature=agent.get("temperature"),
        system_prompt=(agent["system_prompt"] or "") if "system_prompt" in agent else None,
        n_samples=agent.get("n_samples"),
    )


def _in_words(prompt: Mapping[str, Any]) -> str:
    """Returns what a prompt says around a question."""
    said = {name: prompt.get(name, value) for name, value in _PLAIN.items()}
    if said["passages"]:
        said["with_context"] = prompt.get("with_context")
    return "" if said == _PLAIN else json.dumps(said, sort_keys=True)
