"""Owns how saved responses came about, and how they are judged: what their run recorded, and reading it back."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.folder import SETTINGS
from coe_agents.files import parse_json
from coe_agents.policy.calibrated import AskedAgent

JUDGED = "judged"
"""The key of a run's settings under which it is recorded how its answers are judged; see `Judging`."""
_PLAIN = {"instruction": "", "question": "{question}", "passages": False, "shots": 0}


@dataclass(frozen=True, slots=True)
class Judging:
    """How the answers of a run are judged.

    Attributes:
        clusterer: A name as `--clusterer` takes it, or the table [clusterer] of a configuration.
        correctness: As `--correctness` names it.
        recorded: What the run recorded, where its answers are judged in another way.
    """

    clusterer: str | Mapping[str, Any] = "normalized"
    correctness: str = "reference_or_label"
    recorded: "Judging | None" = None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"clusterer": self.clusterer, "correctness": self.correctness}
        return found if self.recorded is None else {**found, "recorded": self.recorded.to_json()}

    def note(self) -> str | None:
        """Returns a line which says that answers are judged otherwise than recorded; None where they are not."""
        if self.recorded is None:
            return None
        return f"Judged by {in_words(self)}; the run recorded {in_words(self.recorded)}."


def in_words(judging: Judging | None) -> str:
    """Returns the clusterer and the criterion, in words."""
    if judging is None:
        return "not recorded"
    named = judging.clusterer if isinstance(judging.clusterer, str) else json.dumps(judging.clusterer)
    return f"clusterer {named}, correctness {judging.correctness}"


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known about how responses came about.

    Attributes:
        agents: How each agent was asked, by name.
        prompt: What was said around a question, as JSON; "" for nothing, None where not known.
        answers: What is recorded of the preset by which answers were asked for; "" for none, None where not known.
        judging: How the answers are judged; None where not known.
    """

    agents: Mapping[str, AskedAgent] = field(default_factory=dict)
    prompt: str | None = None
    answers: str | None = None
    judging: Judging | None = None


def origin_of(paths: Iterable[Path]) -> Origin:
    """Returns what the runs recorded that wrote these files or folders; what they do not agree on is not known."""
    found = _origins(paths)
    return found[0] if len(found) == 1 else Origin()


def recorded_judging(paths: Iterable[Path], *, must_agree: bool = True) -> Judging | None:
    """Returns how the runs recorded that they are judged; None where they do not say, or say different things."""
    first, *others = [each.judging for each in _origins(paths)] or [None]
    if any(other != first for other in others):
        if not must_agree:
            return None
        raise SamplesError(
            f"the runs are judged in different ways: {'; '.join(map(in_words, (first, *others)))}",
            hint="Name one way for all: --clusterer NAME (or --config FILE) and --correctness NAME",
        )
    return first


def _origins(paths: Iterable[Path]) -> list[Origin]:
    found = list[Origin]()
    for folder in dict.fromkeys(path if path.is_dir() else path.parent for path in paths):
        if (origin := _read(folder)) not in found:
            found.append(origin)
    return found


def _read(folder: Path) -> Origin:
    path = folder / SETTINGS
    if not path.is_file():
        return Origin()
    try:
        settings = parse_json(path.read_bytes())
        return Origin(
            agents={agent["name"]: _asked(agent) for agent in settings.get("agents", [])},
            prompt=_prompt_in_words(settings["prompt"]) if "prompt" in settings else None,
            answers=settings.get("answers", "" if "prompt" in settings else None),
            judging=_to_judging(**settings[JUDGED]) if JUDGED in settings else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SamplesError(
            f"{path} does not hold the settings of a run: {type(error).__name__}: {error}",
            hint="Restore it, or move the samples to a folder without it",
        ) from error


def _to_judging(clusterer: object, correctness: object) -> Judging:
    if not isinstance(clusterer, str | dict) or not isinstance(correctness, str):
        raise TypeError(f'"{JUDGED}" must name a clusterer and a criterion; got {clusterer!r} and {correctness!r}')
    return Judging(clusterer, correctness)


def _asked(agent: Mapping[str, Any]) -> AskedAgent:
    return AskedAgent(
        model=agent.get("model"),
        temperature=agent.get("temperature"),
        system_prompt=(agent["system_prompt"] or "") if "system_prompt" in agent else None,
        n_samples=agent.get("n_samples"),
        stated_confidence=agent.get("stated_confidence", False),
    )


def _prompt_in_words(prompt: Mapping[str, Any]) -> str:
    said = {name: prompt.get(name, value) for name, value in _PLAIN.items()}
    if said["passages"]:
        said["with_context"] = prompt.get("with_context")
    return "" if said == _PLAIN else json.dumps(said, sort_keys=True)
