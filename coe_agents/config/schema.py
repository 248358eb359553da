"""Owns the configuration file: its fields, their checks, and errors that name the line at fault."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, Self, cast, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from coe_agents._removed import replacement_of
from coe_agents.actions import AnyOrder, Exact, Ignore, Text, Within
from coe_agents.actions.rules import Rule
from coe_agents.checks import is_number, one_of
from coe_agents.errors import ConfigurationError, secrets_of
from coe_agents.extensions import NO_ENTRY_POINTS, did_you_mean, is_reference
from coe_agents.files import parse_toml
from coe_agents.policy.base import Otherwise
from coe_agents.policy.bounds import NAMES, Bounds
from coe_agents.text import redact
from coe_agents.types import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    Action,
    Regime,
)
from coe_agents.uncertainty.solvers import BUILT_IN as SOLVERS

TINYWORLD = "tinyworld"
"""The name of the shipped entailment model, which is no folder."""
_VARIABLE = 'an environment variable with "api_key_env"'
_REFERENCE = '"package.module:name"'


def _check_options(options: dict[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if name.lower().endswith("api_key"):
            raise ValueError(f'"{name}": the file must not contain a key. Name {_VARIABLE}')
        if not _is_json(value):
            raise ValueError(
                f'"{name}" must be text, a finite number, true or false, or a list or table of them; '
                f"got {type(value).__name__}. Put a date in quotes"
            )
    return options


def _is_json(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int)


def _name_of(part: str, built_in: Sequence[str]) -> Callable[[str], str]:

    def check(name: str) -> str:
        is_known = name in built_in or is_reference(name)
        if is_known and replacement_of(part, name) is None:
            return name
        raise ValueError(describe_unknown(part, built_in, name))

    return check


def describe_unknown(part: str, built_in: Sequence[str], name: object) -> str:
    """Returns which names the part can have, and the one that is near or what to write."""
    instead = replacement_of(part, str(name))
    if instead is not None:
        return f"must not be {name!r}, which was removed. {instead}"
    allowed = _REFERENCE
    if built_in:
        names = ", ".join(repr(each) for each in built_in)
        allowed = f"one of {names}, or {_REFERENCE}"
    advice = did_you_mean(str(name), built_in) or NO_ENTRY_POINTS
    return f"must be {allowed}; got {name!r}. {advice}"


_Options = Annotated[dict[str, Any], AfterValidator(_check_options)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ModelSection(_Section):
    """The fields that name a model and its server; agents, clusterers, arbiters and judges share them.

    Attributes:
        provider: "transformers" (a local folder or hub id), "tinyworld" (a shipped model), or any provider of
            LangChain's `init_chat_model`, such as "openai" for OpenAI-compatible servers, vLLM among them.
        model: The model's name for that provider; the path of a folder is from that of the file, else from the present
            one.
        base_url: Address of the server; must contain no password.
        api_key_env: *Name* of the environment variable with the key; without it no key is sent to a `base_url`.
        options: Passed to the model unchanged; must contain no key.
    """

    provider: str = Field(default="transformers", min_length=1)
    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key_env: str | None = None
    options: _Options = Field(default_factory=dict)

    @field_validator("base_url", mode="before")
    @classmethod
    def _check_address(cls, value: object) -> object:
        if isinstance(value, list):
            remedy = "Put a proxy in front of several servers of a model, and name its address"
            raise ValueError(f"must be one address; got a list of {len(value)}. {remedy}")
        if isinstance(value, str):
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError('must be an address such as "http://127.0.0.1:8000/v1"')
            if parts.username or parts.password:
                raise ValueError(f"the file must not contain a password. Name {_VARIABLE}")
        return value


class PriceConfig(_Section):
    """The price of a million tokens, in a currency of yours, for `coe-agents compare` and `cost_budget`."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)


class AgentConfig(ModelSection):
    """One `[[agents]]` table; the fields are those of `ModelAgent`, and `price_per_million`."""

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
    stated_confidence: bool = False
    price_per_million: PriceConfig | None = None


class CustomPart(_Section):
    """A clusterer or policy of another package: a class or function, called with `options` as keyword arguments.

    `kind` is "package.module:name". The module is imported, which runs its code.
    """

    kind: str
    options: _Options = Field(default_factory=dict)


class EntailmentClusterer(_Section):
    """Clusters by bidirectional entailment; `model` is a folder or hub id of an NLI model, or "tinyworld"."""

    kind: Literal["entailment"]
    model: str = Field(default="microsoft/deberta-large-mnli", min_length=1)
    strict: bool = True
    device: str | None = None


class NormalizedClusterer(_Section):
    """Clusters by equality after SQuAD-style normalisation; needs no model."""

    kind: Literal["normalized"]


class MathematicsClusterer(_Section):
    """Clusters by mathematical value; needs no model, but the extra "math"."""

    kind: Literal["mathematics"]


_RULES: Mapping[str, Rule] = {
    "exact": Exact(),
    "ignore": Ignore(),
    "any_order": AnyOrder(),
    "text": Text(),
}
_FORMS = '"exact", "ignore", "any_order", "text", { within = 0.01 } or { within_relative = 0.05 }'
_WITHIN = {"within": "absolute", "within_relative": "relative"}


def read_rules(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keyword arguments of `ActionMatch`; a ValueError if an option is not known, or a rule is not one."""
    for name in options.keys() - {"compare", "text"}:
        raise ValueError(
            f'"{name}" is not an option of "actions". Its options are compare and text'
        )
    arguments: dict[str, Any] = {}
    if "text" in options:
        arguments["text"] = one_of(options["text"], '"text"', ("exact", "loose"))
    compare = options.get("compare", {})
    if not isinstance(compare, Mapping):
        raise ValueError(
            f'"compare" must be a table of rules by argument; got {type(compare).__name__}'
        )
    if compare:
        arguments["compare"] = {name: _read_rule(name, rule) for name, rule in compare.items()}
    return arguments


def _read_rule(name: str, rule: Any) -> Rule:
    if isinstance(rule, str) and rule in _RULES:
        return _RULES[rule]
    if isinstance(rule, Mapping):
        are_bounds = rule.keys() <= _WITHIN.keys() and all(map(is_number, rule.values()))
        if rule and are_bounds:
            bounds = {_WITHIN[key]: value for key, value in rule.items()}
            return Within(**bounds)
        if "." not in name:  # what TOML reads an unquoted "tool.argument" as
            raise ValueError(
                f'the rule of "{name}" must be {_FORMS}. Put a name with a point in quotes: "tool.argument"'
            )
    raise ValueError(f'the rule of "{name}" must be {_FORMS}; got {rule!r:.80}. Write one of them')


def _check_rules(options: dict[str, Any]) -> dict[str, Any]:
    read_rules(options)
    return options


class ActionsClusterer(_Section):
    """Clusters tool calls by equality, argument by argument; `options` are those of `ActionMatch` but `tools`.

    "compare" has a rule by "tool.argument" or "argument", one of `_FORMS`; "text" is "exact" or "loose".
    """

    kind: Literal["actions"]
    options: Annotated[_Options, AfterValidator(_check_rules)] = Field(default_factory=dict)


class JudgeClusterer(ModelSection):
    """Clusters by bidirectional entailment with a chat model as judge, by default at temperature 0."""

    kind: Literal["llm"]
    strict: bool = True
    max_concurrency: int = Field(default=8, ge=1)


class EmbeddingClusterer(ModelSection):
    """Clusters by the cosine of embeddings; `provider` is one of LangChain's `init_embeddings`."""

    kind: Literal["embedding"]
    provider: str = Field(min_length=1)
    threshold: float = Field(gt=0, le=1)


class AnswersConfig(_Section):
    """A preset of answers: `coe_agents.short_answers`, `coe_agents.mathematics` or `coe_agents.sentences`.

    Attributes:
        kind: Names, numbers and few words; numbers and formulas by value; or sentences.
        model: Of sentences: the NLI model that compares them, as of `EntailmentClusterer`.
        judge: Of sentences: a chat model that compares them in its place.
        instruction: Added to each agent's prompt, in place of the usual one; "" adds none.
    """

    kind: Literal["short", "mathematics", "sentences"]
    model: str | None = None
    judge: ModelSection | None = None
    instruction: str | None = None

    def clusterer(
        self,
    ) -> "NormalizedClusterer | MathematicsClusterer | EntailmentClusterer | JudgeClusterer":
        """What compares the answers."""
        if self.kind == "short":
            return NormalizedClusterer(kind="normalized")
        if self.kind == "mathematics":
            return MathematicsClusterer(kind="mathematics")
        if self.judge is not None:
            return JudgeClusterer(kind="llm", **self.judge.model_dump())
        if self.model is not None:
            return EntailmentClusterer(kind="entailment", model=self.model)
        return EntailmentClusterer(kind="entailment")


class ClaimsConfig(_Section):
    """How long answers are judged claim by claim: `coe_agents.claims.Claims`, with sentences as claims.

    Attributes:
        support: Who supports a claim: "overlap" compares words; "entailment" asks the model of an entailment
            `[clusterer]`.
        policy: The file of a `ClaimPolicy`, which `calibrate --claims` writes, in place of the next two.
        min_support: From which on a claim is kept.
        mark_from: From which on it is marked; omitted, none is.
    """

    support: Literal["overlap", "entailment"] = "overlap"
    policy: str | None = None
    min_support: float = Field(default=0.75, ge=0, le=1)
    mark_from: float | None = Field(default=None, ge=0, le=1)


class ThresholdSection(_Section):
    """The arguments of `ThresholdPolicy`."""

    kind: Literal["threshold"]
    max_coe: float = Field(ge=0)
    otherwise: Otherwise = "abstain"


class RegimeSection(_Section):
    """The arguments of `RegimePolicy`."""

    kind: Literal["regime"] = "regime"
    aleatoric_threshold: float = Field(default=DEFAULT_ALEATORIC_THRESHOLD, ge=0)
    epistemic_threshold: float = Field(default=DEFAULT_EPISTEMIC_THRESHOLD, ge=0)
    actions: dict[Regime, Action] | None = None


class CalibratedSection(_Section):
    """The arguments of `CalibratedPolicy.load`; `path` is relative to the folder of the file."""

    kind: Literal["calibrated"]
    path: str
    # code in Python, its name in TOML
    estimator: Annotated[str, AfterValidator(_name_of("estimator", ()))] | None = None
    otherwise: Otherwise = "abstain"


class ArbiterConfig(ModelSection):
    """A stronger model that decides what the policy escalates, at temperature 0."""

    kind: Literal["arbiter"]
    name: str = Field(default="arbiter", min_length=1)
    price_per_million: PriceConfig | None = None


class GraphConfig(_Section):
    """The options of `create_coe_graph`; `weights` is a file of the agents' weights."""

    max_rounds: int | None = None
    token_budget: int | None = None
    deadline: float | None = None
    strategies: dict[Regime, Literal["resample", "debate", "clarify"]] = Field(default_factory=dict)
    min_agents: int | None = Field(default=None, ge=1)
    coordination: Annotated[str, AfterValidator(_name_of("solver", SOLVERS))] | None = None
    weights: str | None = Field(default=None, min_length=1)
    weighting: Literal["auto", "frequency", "probability"] = "auto"
    history: Literal["conversation", "question"] = "conversation"
    max_question_chars: int = Field(default=100_000, ge=1)
    cost_budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @field_validator(*NAMES, check_fields=False)
    @classmethod
    def _check_limit(cls, value: float | None, info: ValidationInfo) -> float | None:
        Bounds().change(**{str(info.field_name): value})
        return value

    @property
    def bounds(self) -> Bounds:
        return Bounds().change(**dict(self))


_TOML_KINDS = {
    bool: "true or false",
    int | float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}
_REMEDIES = {
    "list_type": "Put it in brackets",
    "string_type": "Put it in quotes",
    "dict_type": "Make it a table",
}


def _tag_of(part: str) -> Callable[[Any], str | None]:

    def tag(table: Any) -> str | None:
        # a table of the file, or a section that was made in Python
        kind = table.get("kind") if isinstance(table, Mapping) else getattr(table, "kind", None)
        if kind is None or kind in _KINDS[part]:
            return kind
        if isinstance(kind, str) and is_reference(kind):
            return "custom"
        return "unknown"

    return tag


ClustererSection = Annotated[
    Annotated[EntailmentClusterer, Tag("entailment")]
    | Annotated[JudgeClusterer, Tag("llm")]
    | Annotated[EmbeddingClusterer, Tag("embedding")]
    | Annotated[NormalizedClusterer, Tag("normalized")]
    | Annotated[MathematicsClusterer, Tag("mathematics")]
    | Annotated[ActionsClusterer, Tag("actions")]
    | Annotated[CustomPart, Tag("custom")],
    Discriminator(_tag_of("clusterer")),
]


PolicySection = Annotated[
    Annotated[ThresholdSection, Tag("threshold")]
    | Annotated[RegimeSection, Tag("regime")]
    | Annotated[CalibratedSection, Tag("calibrated")]
    | Annotated[CustomPart, Tag("custom")],
    Discriminator(_tag_of("policy")),
]


class RecordConfig(_Section):
    """Where `ask` and `serve` record cases: a store, as `coe-agents harvest` names one, and the share of audits."""

    store: str = Field(min_length=1)
    audit_rate: float = Field(default=0.0, ge=0, le=1)


class Config(_Section):
    """A whole file, with its path and text for error messages.

    `council` holds options of `CoECouncil`, whose members are the agents; a condition of its `tools` reads as "amount >
    100". Without `answers`, `clusterer` and `claims` short answers are asked for; without `policy` consensus is
    answered.
    """

    agents: list[AgentConfig] = Field(min_length=1)
    answers: AnswersConfig | None = None
    clusterer: ClustererSection = Field(default=cast("Any", None))
    policy: PolicySection = Field(default_factory=RegimeSection)
    escalation: ArbiterConfig | None = None
    judge: ModelSection | None = None
    claims: ClaimsConfig | None = None
    graph: GraphConfig = Field(default_factory=GraphConfig)
    record: RecordConfig | None = None
    council: _Options = Field(default_factory=dict)
    _path: Path = PrivateAttr(default=Path("configuration"))
    _text: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _compare(self) -> Self:
        if "clusterer" in self.model_fields_set:
            if self.answers is not None:
                raise ValueError(
                    "[answers] comes with its own clusterer. Omit [clusterer], or [answers]"
                )
        elif self.answers is None and self.claims is not None:
            self.clusterer = NormalizedClusterer(kind="normalized")
        else:
            self.answers = self.answers or AnswersConfig(kind="short")
            self.clusterer = self.answers.clusterer()
        return self

    @property
    def folder(self) -> Path:
        """The folder to which paths in the file are relative."""
        return self._path.parent

    @property
    def secrets(self) -> frozenset[str]:
        """The keys that it names or holds."""
        keys = set[str]()
        for section in (*self.agents, self.clusterer, self.policy, self.escalation, self.judge):
            if section is not None:
                keys.update(secrets_of(section))
            if isinstance(section, ModelSection) and section.api_key_env is not None:
                keys.add(os.environ.get(section.api_key_env, ""))
        return frozenset(keys - {""})

    @property
    def prices(self) -> dict[str, dict[str, float]]:
        """The price of a million tokens of each agent, and of the arbiter, that has one."""
        sections: list[AgentConfig | ArbiterConfig] = [*self.agents]
        if self.escalation is not None:
            sections.append(self.escalation)
        prices = {}
        for section in sections:
            if section.price_per_million is not None:
                prices[section.name] = section.price_per_million.model_dump()
        return prices

    def seed_agents(self, seed: int) -> None:
        for agent in self.agents:
            if agent.seed is None and "seed" not in agent.options:
                agent.seed = seed

    def fault(self, message: str, *place: str | int) -> ConfigurationError:
        """Returns the error about a mistake at `place`, of one line: file, line, field and message."""
        line = _fault(self._path, self._text, place, message)
        return ConfigurationError(line, field=_name_of_field(place))


def _by_tag(union: Any) -> dict[str, type[BaseModel]]:
    """Returns the sections of a union by their kinds, in the order in which it names them."""
    alternatives, _ = get_args(union)
    sections = {}
    for alternative in get_args(alternatives):
        section, tag = get_args(alternative)
        sections[tag.tag] = section
    return sections


_CLUSTERERS = _by_tag(ClustererSection)
_POLICIES = _by_tag(PolicySection)
_KINDS = {
    "clusterer": [kind for kind in _CLUSTERERS if kind != "custom"],
    "policy": [kind for kind in _POLICIES if kind != "custom"],
}
_SECTIONS: Mapping[tuple[str, ...], type[BaseModel]] = {
    **{("clusterer", kind): section for kind, section in _CLUSTERERS.items()},
    **{("policy", kind): section for kind, section in _POLICIES.items()},
    (): Config,
    ("agents",): AgentConfig,
    ("agents", "price_per_million"): PriceConfig,
    ("escalation",): ArbiterConfig,
    ("escalation", "price_per_million"): PriceConfig,
    ("judge",): ModelSection,
    ("claims",): ClaimsConfig,
    ("answers",): AnswersConfig,
    ("answers", "judge"): ModelSection,
    ("graph",): GraphConfig,
    ("record",): RecordConfig,
}


def load_config(path: Path) -> Config:
    """Reads and checks a TOML file; a ConfigurationError names the file and the line of a mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = 'Check the path; "coe-agents config init" writes an example'
        raise ConfigurationError(f"{path} cannot be read: {error}", hint=hint) from error
    return read_config(text, path)


def read_config(text: str, path: Path) -> Config:
    """Checks the text of a TOML file, which errors call `path`."""
    try:
        table = parse_toml(text)
    except ValueError as error:
        hint = "Put strings in quotes and table names in brackets"
        if re.search("overwrite|twice", str(error)):
            hint = "Write each field and each table once; [[agents]] begins the table of an agent"
        raise ConfigurationError(f"{path} is not TOML: {error}", hint=hint) from error
    try:
        config = Config.model_validate(table)
    except ValidationError as error:
        secrets = secrets_of(SimpleNamespace(**table))
        lines = []
        fields = []
        for fault in error.errors():
            place = fault["loc"]
            if fault["type"].startswith("union_tag"):
                place = (*place, "kind")
            line = _fault(path, text, place, _describe(fault, place))
            lines.append(redact(line, secrets))
            fields.append(_name_of_field(place))
        hint = '"coe-agents config init" writes an example'
        raise ConfigurationError("\n".join(lines), hint=hint, field=fields[0]) from error
    config._path = path
    config._text = text
    _find_models(config)
    return config


def _find_models(config: Config) -> None:
    """Makes relative paths of models absolute, so that what a run records is found from any folder."""
    answers = config.answers
    sections: list[object] = [*config.agents, config.clusterer, config.escalation, config.judge]
    if answers is not None:
        sections.append(answers.judge)
        if answers.model is not None:
            answers.model = _find_model(answers.model, config.folder)
    for section in sections:
        match section:
            # other providers have no folders
            case ModelSection(provider="transformers" | "huggingface") | EntailmentClusterer():
                section.model = _find_model(section.model, config.folder)


def _find_model(name: str, folder: Path) -> str:
    """Returns the path of what is called `name` beside the file, else in the present folder; else the name."""
    if name == TINYWORLD:
        return name
    for place in (folder, Path()):
        path = Path(os.path.abspath(place / name))
        if path.is_dir() or (path.suffix == ".gguf" and path.is_file()):
            return str(path)
    return name


def _describe(fault: Mapping[str, Any], place: Sequence[str | int]) -> str:
    """Returns what is wrong at `place`, and what to do; a value is shown only where it cannot be a key."""
    kind = fault["type"]
    value = fault["input"]
    message = str(fault["msg"]).removeprefix("Value error, ")
    name = str(place[-1]) if place else ""
    match kind:
        case "missing" | "union_tag_not_found":
            return f'required field is missing. Add "{name}"'
        case "union_tag_invalid":
            part = str(place[0])
            return describe_unknown(part, _KINDS[part], value["kind"])
        case "literal_error":
            allowed = re.findall(r"'([^']*)'", fault["ctx"]["expected"])
            near = did_you_mean(str(value), allowed)
            return f"{message}. {near}" if near else message
        case "extra_forbidden":
            section = tuple(part for part in place[:-1] if isinstance(part, str))
            return _describe_extra(name, section)
        case "int_parsing" | "float_parsing" | "bool_parsing":
            wanted = "true or false" if kind == "bool_parsing" else "a number"
            return f"{message}; got other text. Write {wanted}, without quotes"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return f"{message}; got {value}"
        case "list_type" | "string_type" | "dict_type":
            got = "a date"
            for type_of_value, words in _TOML_KINDS.items():
                if isinstance(value, type_of_value):
                    got = words
                    break
            return f"{message}; got {got}. {_REMEDIES[kind]}"
    return message


def _describe_extra(name: str, section: tuple[str, ...]) -> str:
    """Returns what to do about a field that a section does not have."""
    if name.endswith("key"):
        return f"the file must not contain a key. Name {_VARIABLE}"
    instead = replacement_of(".".join(section), name)
    if instead is not None:
        return f"this field was removed. {instead}"
    if section[1:] == ("custom",):
        return f"unknown field. Move it to [{section[0]}.options], if it is an option of that {section[0]}"
    fields = list(_SECTIONS[section].model_fields)
    near = did_you_mean(name, fields) or f"The fields here are {', '.join(fields)}"
    return f"unknown field. {near}"


def line_of(text: str, location: Sequence[str | int]) -> int:
    r"""Returns the line (from 1) of the deepest part of `location` that the TOML text spells out."""
    wanted = [str(part) for part in location]
    best_depth = 0
    best_line = 1
    table: list[str] = []
    n_tables: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*(\[\[?)\s*([^\]]+?)\s*\]", line)
        key = re.match(r"\s*[\"']?([\w.-]+)[\"']?\s*=", line)
        if header:
            name = header[2].replace('"', "").replace(" ", "")
            if header[1] == "[[":
                n_tables[name] = n_tables.get(name, 0) + 1
            table = name.split(".")
            if table[0] in n_tables:  # what follows is of the last table of this array
                table.insert(1, str(n_tables[table[0]] - 1))
            spelled = table
        elif key:
            spelled = [*table, *key[1].split(".")]
        else:
            continue
        # the location contains a union's tag, the file does not
        common = [part for part in wanted if part in spelled]
        if spelled == common[: len(spelled)] and len(spelled) > best_depth:
            best_depth = len(spelled)
            best_line = number
    return best_line


def _fault(path: Path, text: str, place: Sequence[str | int], message: str) -> str:
    file = str(path)
    if path.suffix:  # models that are named have no file
        file = f"{path}:{line_of(text, place)}"
    name = _name_of_field(place) or "the file"
    return f"{file}: {name}: {message}"


def _name_of_field(place: Sequence[str | int]) -> str:
    """Returns the name of a field as messages have it, such as "agents[0].model"; "" for the file itself."""
    has_tag = len(place) > 2 and place[0] in _KINDS and tuple(place[:2]) in _SECTIONS
    if has_tag:  # which is not a field
        place = (place[0], *place[2:])
    name = ""
    for part in place:
        name += f"[{part}]" if isinstance(part, int) else f".{part}"
    return name.lstrip(".")
