"""Owns the comparison of the models that the servers of one agent offer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from coe_agents.config.clients import create_chat_model, replicas_of
from coe_agents.config.schema import AgentConfig, Config
from coe_agents.doctor.agents import all_within

_FIELDS = ("root", "max_model_len")
"""Fields of a model, other than its name, that vLLM reports."""
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Offer:
    """The models of a server, and the fields of the one that an agent uses."""

    models: tuple[str, ...]
    fields: Mapping[str, Any]


def other_models(config: Config) -> Iterator[str]:
    """Yields a note for each server that seems to lack its agent's model or to have another than its other servers.

    Covers agents with several servers of OpenAI's protocol; a server that does not list its models is skipped.
    """
    for agent in config.agents:
        if len(agent.base_url) < 2 or agent.provider != "openai":
            continue
        servers = zip(agent.base_url, replicas_of(agent), strict=True)
        offers = all_within(_SECONDS + 1, {address: partial(_offer, replica) for address, replica in servers})
        offered = {address: offer for address, offer in offers.items() if offer is not None}
        for address, offer in offered.items():
            if agent.model not in offer.models:
                others = ", ".join(offer.models[:5]) or "nothing"
                yield f"agent {agent.name}: {address} does not offer {agent.model}, but {others}"
        for field in _FIELDS:
            values = {address: offer.fields[field] for address, offer in offered.items() if field in offer.fields}
            if len(set(map(str, values.values()))) > 1:
                listed = ", ".join(f"{value} at {address}" for address, value in values.items())
                yield f"agent {agent.name}: its servers seem to have different models; {field} is {listed}"


def _offer(section: AgentConfig) -> _Offer | None:
    model: Any = create_chat_model(section, owner=f'agent "{section.name}"')
    try:
        client = model.root_client.with_options(timeout=_SECONDS, max_retries=0)
        listed = {str(entry.id): entry.to_dict() for entry in client.models.list()}
    except Exception:  # the probe that samples there reports a server that is down
        return None
    fields = listed.get(section.model, {})
    return _Offer(tuple(listed), {name: fields[name] for name in _FIELDS if fields.get(name)})
