"""Owns what `config check` looks at beyond what a graph needs: what is allowed, and yet not what was meant."""

import math
import warnings
from collections.abc import Iterator
from pathlib import Path

from coe_agents.cli.assemble import assemble, create_judge
from coe_agents.cli.config import (
    CalibratedConfig,
    Config,
    EntailmentClusterer,
    JudgeClusterer,
    RegimeConfig,
    ThresholdConfig,
)
from coe_agents.errors import ConfigurationError
from coe_agents.policy import RegimePolicy


def check(config: Config) -> list[str]:
    """Returns notes on a configuration that works; calls nobody and loads no model.

    Raises:
        ConfigurationError: With a line for each mistake.
    """
    faults = [*_missing_folders(config), *_out_of_reach(config)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for create in (create_judge, assemble):
            try:
                create(config)
            except ConfigurationError as error:
                faults = [*str(error).splitlines(), *faults]
    if faults:
        raise ConfigurationError("\n".join(faults))
    return [*(" ".join(str(warning.message).split()) for warning in caught), *_notes(config)]


def is_folder(model: str) -> bool:
    """Returns whether `model` is a local folder; else it is a hub id, or a path that leads nowhere."""
    return Path(model).is_dir()


def _missing_folders(config: Config) -> Iterator[str]:
    for place, agent in enumerate(config.agents):
        if agent.provider == "transformers" and _leads_nowhere(agent.model):
            yield config.fault(_no_folder(agent.model), "agents", place, "model")
    if config.judge is not None and config.judge.provider == "transformers" and _leads_nowhere(config.judge.model):
        yield config.fault(_no_folder(config.judge.model), "judge", "model")
    match chosen := config.clusterer:
        case EntailmentClusterer() | JudgeClusterer(provider="transformers") if _leads_nowhere(chosen.model):
            yield config.fault(_no_folder(chosen.model), "clusterer", "model")


def _leads_nowhere(model: str) -> bool:
    is_path = model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model
    return is_path and not is_folder(model)


def _no_folder(model: str) -> str:
    return f'there is no folder "{model}". Correct the path, or give a hub id ("owner/name")'


def _out_of_reach(config: Config) -> Iterator[str]:
    policy, n_agents = config.policy, len(config.agents)
    if not isinstance(policy, RegimeConfig):
        return
    regimes = RegimePolicy(policy.aleatoric_threshold, policy.epistemic_threshold).unreachable(n_agents=n_agents)
    if regimes and n_agents == 1:
        message = 'with one agent nothing is epistemic. Add agents, or set kind = "threshold"'
        yield config.fault(message, "policy", "epistemic_threshold")
    elif regimes:
        message = (
            f"with {n_agents} agents the epistemic part is at most {math.log(n_agents):.3f} nats, so "
            f"{' and '.join(regimes)} are out of reach. Set it lower"
        )
        yield config.fault(message, "policy", "epistemic_threshold")


def _notes(config: Config) -> Iterator[str]:
    policy, graph = config.policy, config.graph
    uniform = len({agent.weight for agent in config.agents}) == 1
    # resampling doubles them each round: 1 + 2 + 4 + ...
    wanted = graph.adaptive.max_samples if graph.adaptive is not None else None
    n_responses = (2**graph.max_rounds - 1) * sum(wanted or agent.n_samples for agent in config.agents)
    again: list[tuple[str, ...]]
    most = math.log(n_responses) if uniform and graph.divergence == "kl" else math.inf
    if isinstance(policy, ThresholdConfig) and policy.max_coe >= most:
        message = f"{n_responses} responses have a CoE of at most {most:.3f} nats, so this always answers"
        yield config.fault(message, "policy", "max_coe")
    if isinstance(policy, ThresholdConfig | CalibratedConfig):
        again = [("otherwise",)] if policy.otherwise == "another_round" else []
        escalates = policy.otherwise == "escalate"
    else:
        again = [("actions", regime) for regime, action in policy.actions.items() if action == "another_round"]
        escalates = "escalate" in policy.actions.values()
    if again and graph.max_rounds == 1:
        message = '"another_round" becomes "abstain", for max_rounds of [graph] is 1'
        yield config.fault(message, "policy", *again[0])
    if graph.adaptive is not None and isinstance(policy, CalibratedConfig):
        message = "a calibrated policy needs all responses that it was calibrated on, so all are drawn at once"
        yield config.fault(message, "graph", "adaptive")
    if config.escalation is not None and not escalates:
        yield config.fault('no action of [policy] is "escalate", so it is never asked', "escalation")
    if len(config.agents) == 1:
        yield config.fault("with one agent CoE is its semantic entropy; it sees no disagreement", "agents")
