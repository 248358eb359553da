"""Owns the checks of `config check` beyond those of a graph: settings that are valid but probably not intended."""

import math
import warnings
from collections.abc import Iterator

from coe_agents.config.build import assemble, create_judge, join_faults
from coe_agents.config.schema import Config
from coe_agents.errors import ConfigurationError
from coe_agents.policy import RegimePolicy
from coe_agents.policy.calibrated import UnkeptRiskWarning


def check(config: Config) -> list[str]:
    """Returns notes on a valid configuration; calls and loads no model. Mistakes are lines of a ConfigurationError."""
    warned = [_in_one_line(warning) for warning in _warnings_of(config)]
    return warned + list(_notes(config))


def guarantee_notes(config: Config) -> list[str]:
    """Returns those of the notes of `check` that say why a calibrated risk does not hold."""
    notes = []
    for warning in _warnings_of(config):
        if isinstance(warning, UnkeptRiskWarning):
            notes.append(_in_one_line(warning))
    return notes


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
        faults.extend(_unreachable_regimes(config))
    if faults:
        raise join_faults(faults)
    return [warning.message for warning in caught]


def _unreachable_regimes(config: Config) -> Iterator[ConfigurationError]:
    if config.policy.kind != "regime":
        return
    policy = RegimePolicy(**config.policy.model_dump(exclude={"kind"}))
    n_agents = len(config.agents)
    regimes = policy.unreachable(n_agents=n_agents)
    if regimes and n_agents > 1:
        message = (
            f"with {n_agents} agents the epistemic part is at most {math.log(n_agents):.3f} on KL's scale, so "
            f"{' and '.join(regimes)} cannot be reached. Lower the threshold"
        )
        yield config.fault(message, "policy", "epistemic_threshold")


def _notes(config: Config) -> Iterator[str]:
    policy = config.policy
    action_at: dict[tuple[str, ...], object] = {}
    action_at["otherwise",] = getattr(policy, "otherwise", None)
    actions = getattr(policy, "actions", None) or {}
    for regime, action in actions.items():
        action_at["actions", regime] = action

    has_one_round = config.graph.max_rounds in (None, 1)
    places_again = [place for place, action in action_at.items() if action == "another_round"]
    if places_again and has_one_round:
        message = '"another_round" becomes "abstain", because max_rounds of [graph] is 1'
        yield str(config.fault(message, "policy", *places_again[0]))

    if len(config.agents) == 1:
        message = "with one agent CoE is its semantic entropy and cannot measure disagreement"
        yield str(config.fault(message, "agents"))
