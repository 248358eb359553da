"""Owns asking the servers of an agent that has several which models they offer, and finding one that has another."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from coe_agents.config.clients import create_chat_model, replicas_of
from coe_agents.config.schema import AgentConfig, Config
from coe_agents.doctor.agents import all_within

_TOLD = ("root", "max_model_len")
"""What vLLM says of a model beyond its name."""
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Offer:
    """The models of a server, and what it tells of the one that an agent asks for."""

    models: tuple[str, ...]
    told: Mapping[str, Any]


def other_models(config: Config) -> Iterator[str]:
    """Yields a note for each server that does not seem to have the model of its agent, or of the agent's other servers.

    Only agents with several servers of OpenAI's protocol are looked at; a server that does not say is left out.
    """
    for agent in config.agents:
        if len(agent.base_url) < 2 or agent.provider != "openai":
            continue
        asked = zip(agent.base_url, replicas_of(agent), strict=True)
        said = all_within(_SECONDS + 1, {address: partial(_offer, replica) for address, replica in asked})
        offered = {address: offer for address, offer in said.items() if offer is not None}
        for address, offer in offered.items():
            if agent.model not in offer.models:
                others = ", ".join(offer.models[:5]) or "nothing"
                yield f"agent {agent.name}: {address} does not offer {agent.model}, but {others}"
        for field in _TOLD:
            told = {address: offer.told[field] for address, offer in offered.items() if field in offer.told}
            if len(set(map(str, told.values()))) > 1:
                listed = ", ".join(f"{value} at {address}" for address, value in told.items())
                yield f"agent {agent.name}: its servers seem to have different models; {field} is {listed}"


def _offer(section: AgentConfig) -> _Offer | None:
    model: Any = create_chat_model(section, owner=f'agent "{section.name}"')
    try:
        client = model.root_client.with_options(timeout=_SECONDS, max_retries=0)
        listed = {str(entry.id): entry.to_dict() for entry in client.models.list()}
    except Exception:  # of whatever kind: that a server is down is told by the probe that samples there
        return None
    told = listed.get(section.model, {})
    return _Offer(tuple(listed), {name: told[name] for name in _TOLD if told.get(name)})
