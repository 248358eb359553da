"""Owns what a configuration may say that a command found in its folder: it runs no code, and sends no key.

A file that `--config` or `COE_CONFIG` names is its user's word. One that lies in a folder may be anybody's. So it may
ask for what is listed here, and nothing else.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from coe_agents.agents.requests.chat_models import LOCAL_PROVIDERS
from coe_agents.config import schema
from coe_agents.config.build import join_faults
from coe_agents.config.schema import Config, ModelSection, load_config
from coe_agents.errors import ConfigurationError
from coe_agents.uncertainty.solvers import BUILT_IN

FOUND = Path("coe.toml")
_PROVIDERS = (*LOCAL_PROVIDERS, "anthropic", "google_genai", "mistralai", "ollama", "openai")
"""Providers whose clients send questions to their own servers, and models in this process, which run no code."""
_OPTIONS = {"device", "dtype", "max_tokens", "revision", "seed", "stop", "temperature", "top_p"}
"""Options that change how a model is sampled."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HARMLESS = (
    schema.NormalizedClusterer,
    schema.MathematicsClusterer,
    schema.EntailmentClusterer,
    schema.ActionsClusterer,
    schema.ThresholdSection,
    schema.RegimeSection,
    schema.CalibratedSection,
)
_Place = tuple[str | int, ...]


def load_found() -> Config:
    """Returns the configuration of `coe.toml` in the present folder.

    Raises:
        ConfigurationError: If it is invalid, or asks for more than a file may that nobody named; with a line for each.
    """
    config = load_config(FOUND)
    faults = list[ConfigurationError]()
    for what, place in _excesses(config):
        message = (
            f"{what}, and {FOUND} was found in this folder, not named. If you trust it, name it: "
            f"--config {FOUND}, or COE_CONFIG={FOUND}"
        )
        faults.append(config.fault(message, *place))
    if faults:
        raise join_faults(faults)
    return config


def _excesses(config: Config) -> Iterator[tuple[str, _Place]]:
    """Yields what the file asks for beyond what it may, and where."""
    sections: list[tuple[object, _Place]] = []
    for name in ("clusterer", "policy", "escalation", "judge"):
        sections.append((getattr(config, name), (name,)))
    for number, agent in enumerate(config.agents):
        sections.append((agent, ("agents", number)))
    for section, place in sections:
        if isinstance(section, ModelSection):
            for what, field in _of_model(section):
                yield what, (*place, field)
        elif section is not None and not isinstance(section, _HARMLESS):
            yield "this name of code would be imported", (*place, "kind")
    if getattr(config.policy, "estimator", None) is not None:
        yield "this name of code would be imported", ("policy", "estimator")
    if config.graph.coordination not in (None, *BUILT_IN):
        yield "this name of code would be imported", ("graph", "coordination")
    if config.record is not None:
        yield "questions and answers would be written to this store", ("record", "store")


def _of_model(section: ModelSection) -> Iterator[tuple[str, str]]:
    if section.provider not in _PROVIDERS:
        yield "the client of this provider may run code or read keys", "provider"
    for option in section.options.keys() - _OPTIONS:
        yield f'the option "{option}" may run code or send keys elsewhere', "options"
    address = section.base_url
    is_own = address is not None and address == os.environ.get("OPENAI_BASE_URL")
    if address is not None and not is_own and urlsplit(address).hostname not in _LOOPBACK:
        yield "questions would be sent to this server", "base_url"
    variable = section.api_key_env
    sends_own_key = is_own and variable == "OPENAI_API_KEY"
    if variable is not None and not sends_own_key:
        yield "this variable would be sent as a key", "api_key_env"
