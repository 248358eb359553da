"""Owns asking the servers of an agent that has several what they offer: who has another model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from coe_agents.agents.failures import to_agent_error
from coe_agents.cli.config import AgentConfig, Config
from coe_agents.cli.models import create_chat_model, replicas_of
from coe_agents.cli.probes import Failure, all_within, to_failure
from coe_agents.redaction import secrets_of

_TOLD = ("root", "max_model_len")
"""What vLLM says of a model beyond its name."""

Offers = Mapping[str, Mapping[str, "Offer | Failure"]]
"""What each server said, by agent and address."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The models of a server, and what it tells of the one that an agent asks for."""

    models: tuple[str, ...]
    told: Mapping[str, Any]


def offers(config: Config, *, timeout: float = 5.0) -> Offers:
    """Asks the servers of each agent that has several for their lists of models; no model is called.

    Servers of another protocol than OpenAI's are left out.
    """
    asked = {
        (agent.name, address): partial(_offer, replica, timeout)
        for agent in config.agents
        if len(agent.base_url) > 1 and agent.provider == "openai"
        for address, replica in zip(agent.base_url, replicas_of(agent), strict=True)
    }
    late = Failure(error=f"no reply within {timeout:g} s", remedy="Look at the server's log")
    found: dict[str, dict[str, Offer | Failure]] = {}
    said = all_within(timeout + 1, {" ".join(key): ask for key, ask in asked.items()})
    for name, address in asked:
        found.setdefault(name, {})[address] = said[f"{name} {address}"] or late
    return found


def is_other(config: Config, found: Offers) -> Iterator[str]:
    """Yields a note for each agent whose servers do not seem to have the same model, the one that it asks for."""
    wanted = {agent.name: agent.model for agent in config.agents}
    for name, servers in found.items():
        offered = {address: said for address, said in servers.items() if isinstance(said, Offer)}
        for address, said in offered.items():
            if wanted[name] not in said.models:
                others = ", ".join(said.models[:5]) or "nothing"
                yield f"agent {name}: {address} does not offer {wanted[name]}, but {others}"
        for field in _TOLD:
            told = {address: said.told[field] for address, said in offered.items() if field in said.told}
            if len(set(map(str, told.values()))) > 1:
                listed = ", ".join(f"{value} at {address}" for address, value in told.items())
                yield f"agent {name}: its servers seem to have different models; {field} is {listed}"


def _offer(section: AgentConfig, timeout: float) -> Offer | Failure:
    model: Any = create_chat_model(section, owner=f'agent "{section.name}"')
    try:
        client = model.root_client.with_options(timeout=timeout, max_retries=0)
        listed = {str(entry.id): entry.to_dict() for entry in client.models.list()}
    except Exception as error:
        return to_failure(to_agent_error(error, address=section.base_url[0]), secrets_of(model))
    told = listed.get(section.model, {})
    return Offer(tuple(listed), {name: told[name] for name in _TOLD if told.get(name)})
