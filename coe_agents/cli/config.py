"""Owns the configuration file: its fields, their checks, and errors that name the line at fault."""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from coe_agents.errors import ConfigurationError
from coe_agents.rounds import MOST_SAMPLES, AdaptiveSampling
from coe_agents.types import Action, Regime

_ADAPTIVE = AdaptiveSampling()
_VARIABLE = 'an environment variable with "api_key_env"'


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ModelSection(_Section):
    """What names a model and where it is; agents, clusterers, arbiters and judges share it.

    Attributes:
        provider: "transformers" (a local folder or hub id), "tinyworld" (a shipped model), or any provider of
            LangChain's `init_chat_model`, such as "openai" for OpenAI-compatible servers, vLLM among them.
        model: The model's name for that provider.
        base_url: Of the server, or of each that serves the model to an agent; no password stands in it.
        api_key_env: The *name* of the environment variable with the key; without one no key is sent to a `base_url`.
        options: Passed to the model as they are; no key stands in them.
    """

    provider: str = Field(default="transformers", min_length=1)
    model: str = Field(min_length=1)
    base_url: Annotated[list[str], BeforeValidator(lambda url: [url] if isinstance(url, str) else url)] = []
    api_key_env: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("base_url")
    @classmethod
    def _check_addresses(cls, value: list[str]) -> list[str]:
        if len(value) > 1 and not issubclass(cls, AgentConfig):
            raise ValueError("only an agent may have several addresses. Leave one of them")
        if len({address.rstrip("/") for address in value}) < len(value):
            raise ValueError("an address stands there twice. Leave one of them")
        for address in value:
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError('it must be an address such as "http://127.0.0.1:8000/v1", or a list of some')
            if parts.username or parts.password:
                raise ValueError(f"no password may stand in the file. Name {_VARIABLE}")
        return value

    @field_validator("options")
    @classmethod
    def _check_no_key(cls, value: dict[str, Any]) -> dict[str, Any]:
        if keys := [name for name in value if name.lower().endswith("api_key")]:
            raise ValueError(f'"{keys[0]}": no key may stand in the file. Name {_VARIABLE}')
        return value


class AgentConfig(ModelSection):
    """One `[[agents]]` table; the fields are those of `ModelAgent`."""

    name: str = Field(min_length=1)
    n_samples: int = Field(default=5, ge=1)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    system_prompt: str | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    timeout: float | None = Field(default=600.0, gt=0)
    request_timeout: float | None = Field(default=None, gt=0)
    retries: int = Field(default=2, ge=0)
    max_concurrency: int = Field(default=16, ge=1)
    max_response_chars: int = Field(default=20_000, ge=1)
    on_greedy: Literal["exclude", "count_once", "trust"] = "exclude"


class EntailmentClusterer(_Section):
    """Clusters by bidirectional entailment; `model` is a folder or hub id of an NLI model, or "tinyworld"."""

    kind: Literal["entailment"]
    model: str = Field(default="microsoft/deberta-large-mnli", min_length=1)
    strict: bool = True
    device: str | None = None


class NormalizedClusterer(_Section):
    """Clusters by equality after SQuAD-style normalisation; needs no model."""

    kind: Literal["normalized"]


class JudgeClusterer(ModelSection):
    """Clusters by bidirectional entailment with a chat model as judge, at temperature 0 unless `options` set it."""

    kind: Literal["llm"]
    strict: bool = True
    max_concurrency: int = Field(default=8, ge=1)


class EmbeddingClusterer(ModelSection):
    """Clusters by the cosine of embeddings; `provider` is one of LangChain's `init_embeddings`."""

    kind: Literal["embedding"]
    provider: str = Field(min_length=1)
    threshold: float = Field(gt=0, le=1)


class ThresholdConfig(_Section):
    """Answers while CoE is at most `max_coe` nats."""

    kind: Literal["threshold"]
    max_coe: float = Field(ge=0)
    otherwise: Literal["abstain", "escalate", "another_round"] = "abstain"


class RegimeConfig(_Section):
    """Acts by regime; thresholds in nats."""

    kind: Literal["regime"]
    aleatoric_threshold: float = Field(ge=0)
    epistemic_threshold: float = Field(ge=0)
    actions: dict[Regime, Action] = Field(default_factory=dict)


class CalibratedConfig(_Section):
    """Answers up to the threshold that `coe-agents calibrate` chose; `path` is taken from the file's own folder."""

    kind: Literal["calibrated"]
    path: str = Field(min_length=1)
    otherwise: Literal["abstain", "escalate", "another_round"] = "abstain"


class ArbiterConfig(ModelSection):
    """A stronger model decides what the policy escalates, at temperature 0."""

    kind: Literal["arbiter"]
    name: str = Field(default="arbiter", min_length=1)


class AdaptiveConfig(_Section):
    """Few responses first, and more only while they could change the decision; as in `AdaptiveSampling`."""

    start: int = Field(default=_ADAPTIVE.start, ge=1, le=MOST_SAMPLES)
    step: int = Field(default=_ADAPTIVE.step, ge=1, le=MOST_SAMPLES)
    max_samples: int | None = Field(default=None, ge=1, le=MOST_SAMPLES)
    confidence: float = Field(default=_ADAPTIVE.confidence, gt=0, lt=1)


class GraphConfig(_Section):
    """The options of `create_coe_graph`."""

    max_rounds: int = Field(default=1, ge=1)
    token_budget: int | None = Field(default=None, ge=1)
    deadline: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    strategies: dict[Regime, Literal["resample", "diversify", "debate"]] = Field(default_factory=dict)
    adaptive: AdaptiveConfig | None = None
    min_agents: int | None = Field(default=None, ge=1)
    coordination: str | None = None
    weighting: Literal["auto", "frequency", "probability"] = "auto"
    divergence: Literal["kl", "js", "hellinger", "total_variation", "wasserstein"] = "kl"
    max_question_chars: int = Field(default=100_000, ge=1)


class Config(_Section):
    """A whole file, and what it was read from."""

    agents: list[AgentConfig] = Field(min_length=1)
    clusterer: Annotated[
        EntailmentClusterer | JudgeClusterer | EmbeddingClusterer | NormalizedClusterer, Field(discriminator="kind")
    ]
    policy: Annotated[ThresholdConfig | RegimeConfig | CalibratedConfig, Field(discriminator="kind")]
    escalation: ArbiterConfig | None = None
    judge: ModelSection | None = None
    graph: GraphConfig = Field(default_factory=GraphConfig)
    _path: Path = PrivateAttr(default=Path("configuration"))
    _text: str = PrivateAttr(default="")

    @property
    def folder(self) -> Path:
        """Where relative paths of the file start."""
        return self._path.parent

    def fault(self, message: str, *place: str | int) -> str:
        """Returns one line on a mistake at `place`: file, line, field, and the message."""
        return _fault(self._path, self._text, place, message)


_SECTIONS: Mapping[tuple[str, ...], type[BaseModel]] = {
    (): Config,
    ("agents",): AgentConfig,
    ("clusterer", "entailment"): EntailmentClusterer,
    ("clusterer", "llm"): JudgeClusterer,
    ("clusterer", "embedding"): EmbeddingClusterer,
    ("clusterer", "normalized"): NormalizedClusterer,
    ("policy", "threshold"): ThresholdConfig,
    ("policy", "regime"): RegimeConfig,
    ("policy", "calibrated"): CalibratedConfig,
    ("escalation",): ArbiterConfig,
    ("judge",): ModelSection,
    ("graph",): GraphConfig,
    ("graph", "adaptive"): AdaptiveConfig,
}


def load_config(path: Path) -> Config:
    """Reads and checks a TOML file.

    Raises:
        ConfigurationError: If it cannot be read, is no TOML, or does not fit; the message names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error}", hint='Check the path; "coe-agents config init" writes an example'
        ) from error
    try:
        config = Config.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}", hint="Strings need quotes, tables brackets") from error
    except ValidationError as error:
        faults = []
        for fault in error.errors(include_input=False):
            tag = fault["type"].startswith("union_tag")
            place = (*fault["loc"], "kind") if tag else fault["loc"]
            faults.append(_fault(path, text, place, _said(fault, place)))
        raise ConfigurationError(
            "\n".join(faults), hint='"coe-agents config init" writes an example of every field'
        ) from error
    config._path, config._text = path, text
    return config


def _said(fault: Mapping[str, Any], place: Sequence[str | int]) -> str:
    """Returns what is wrong, and what to do where pydantic's message does not say it."""
    said, name = str(fault["msg"]).removeprefix("Value error, "), str(place[-1]) if place else ""
    match fault["type"]:
        case "missing" | "union_tag_not_found":
            return f'Field required. Add "{name}"'
        case "union_tag_invalid":
            return f"there is no kind '{fault['ctx']['tag']}'. Choose one of {fault['ctx']['expected_tags']}"
        case "extra_forbidden" if name.endswith("key"):
            return f"no key may stand in the file. Name {_VARIABLE}"
        case "extra_forbidden":
            fields = list(_SECTIONS[tuple(part for part in place[:-1] if isinstance(part, str))].model_fields)
            near = difflib.get_close_matches(name, fields, n=1)
            remedy = f'Did you mean "{near[0]}"?' if near else f"The fields here are {', '.join(fields)}"
            return f"there is no such field. {remedy}"
    return said


def line_of(text: str, location: Sequence[str | int]) -> int:
    r"""Returns the line (from 1) of the deepest part of `location` that the TOML text spells out.

    Example:
        >>> line_of('[[agents]]\nname = "a"\n[policy]\nmax_coe = -1', ("policy", "threshold", "max_coe"))
        4
    """
    wanted = [str(part) for part in location]
    best, best_line, table = 0, 1, list[str]()
    arrays: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*(\[\[?)\s*([^\]]+?)\s*\]", line):
            name = header[2].replace('"', "").replace(" ", "")
            if header[1] == "[[":
                arrays[name] = arrays.get(name, -1) + 1
            parts = name.split(".")
            first = [parts[0], str(arrays[parts[0]])] if parts[0] in arrays else [parts[0]]
            table = [*first, *parts[1:]]
            spelled = table
        elif key := re.match(r"\s*[\"']?([\w.-]+)[\"']?\s*=", line):
            spelled = [*table, *key[1].split(".")]
        else:
            continue
        # a union's tag stands in the location, not in the file
        depth = len(spelled) if spelled == [part for part in wanted if part in spelled][: len(spelled)] else 0
        if depth > best:
            best, best_line = depth, number
    return best_line


def _fault(path: Path, text: str, place: Sequence[str | int], message: str) -> str:
    return f"{path}:{line_of(text, place)}: {_dotted(place)}: {message}"


def _dotted(location: Sequence[str | int]) -> str:
    parent = _SECTIONS.get((str(location[0]),), Config) if location else Config
    # a union's tag is no field
    if len(location) > 2 and tuple(location[:2]) in _SECTIONS and location[1] not in parent.model_fields:
        location = (location[0], *location[2:])
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".") or "the file"
