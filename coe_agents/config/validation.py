"""Owns the checks of `config check` beyond those of a graph: settings that are valid but probably not intended."""

import math
import warnings
from collections.abc import Iterator

from coe_agents.config import schema
from coe_agents.config.build import assemble, create_judge, join_faults
from coe_agents.config.schema import Config, ModelSection
from coe_agents.errors import ConfigurationError
from coe_agents.files import missing_model
from coe_agents.policy import RegimePolicy
from coe_agents.policy.calibrated import UnkeptRiskWarning


def check(config: Config) -> list[str]:
    """Returns notes on a valid configuration; calls and loads no model. Mistakes are lines of a ConfigurationError."""
    return [*map(_in_one_line, _warnings_of(config)), *_notes(config)]


def guarantee_notes(config: Config) -> list[str]:
    """Returns those of the notes of `check` that say why a calibrated risk does not hold."""
    warned = _warnings_of(config)
    return [_in_one_line(each) for each in warned if isinstance(each, UnkeptRiskWarning)]


def _in_one_line(warning: Warning | str) -> str:
    return " ".join(str(warning).split())


def _warnings_of(config: Config) -> list[Warning | str]:
    """Returns what the parts of a configuration warn of when they are created."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        faults = list[ConfigurationError]()
        for create in (create_judge, assemble):
            try:
                create(config)
            except ConfigurationError as error:
                faults.append(error)
        faults += [*_missing_models(config), *_unreachable_regimes(config)]
    if faults:
        raise join_faults(faults)
    return [warning.message for warning in caught]


def _missing_models(config: Config) -> Iterator[ConfigurationError]:
    places: list[tuple[object, tuple[str | int, ...]]] = [
        (config.judge, ("judge",)),
        (config.escalation, ("escalation",)),
        (config.clusterer, ("clusterer",)),
    ]
    for number, agent in enumerate(config.agents):
        places.insert(number, (agent, ("agents", number)))
    for section, place in places:
        match section:
            case (
                schema.EntailmentClusterer(model=model)
                | schema.EmbeddingClusterer(provider="huggingface", model=model)
                | ModelSection(provider="transformers", model=model)
            ):
                missing = missing_model(model)
                if missing is not None:
                    message = f'{missing}. Correct the path, or use a hub id ("owner/name")'
                    yield config.fault(message, *place, "model")


def _unreachable_regimes(config: Config) -> Iterator[ConfigurationError]:
    policy = config.policy
    n_agents = len(config.agents)
    if policy.kind != "regime":
        return
    regimes = RegimePolicy(**policy.model_dump(exclude={"kind"})).unreachable(n_agents=n_agents)
    if regimes and n_agents > 1:
        message = (
            f"with {n_agents} agents the epistemic part is at most {math.log(n_agents):.3f} on KL's scale, so "
            f"{' and '.join(regimes)} cannot be reached. Lower the threshold"
        )
        yield config.fault(message, "policy", "epistemic_threshold")


def _notes(config: Config) -> Iterator[str]:
    policy = config.policy
    max_rounds = config.graph.max_rounds or 1
    actions: dict[tuple[str, ...], object] = {("otherwise",): getattr(policy, "otherwise", None)}
    for regime, action in (getattr(policy, "actions", None) or {}).items():
        actions["actions", regime] = action
    again = [place for place, action in actions.items() if action == "another_round"]
    # of a policy of another package, only its code knows
    escalates = isinstance(policy, schema.CustomPart) or "escalate" in actions.values()
    if again and max_rounds == 1:
        message = '"another_round" becomes "abstain", because max_rounds of [graph] is 1'
        yield str(config.fault(message, "policy", *again[0]))
    if config.escalation is not None and not escalates:
        message = 'no action of [policy] is "escalate", so the arbiter is never asked'
        yield str(config.fault(message, "escalation"))
    if len(config.agents) == 1:
        message = "with one agent CoE is its semantic entropy and cannot measure disagreement"
        yield str(config.fault(message, "agents"))
