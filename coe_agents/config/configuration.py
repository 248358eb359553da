"""Owns `load`, which turns a configuration file into objects."""

from dataclasses import dataclass, field
from pathlib import Path

from langgraph.graph import StateGraph

from coe_agents.agents import ModelAgent
from coe_agents.clustering import Clusterer
from coe_agents.config.build import assemble, create_agents, create_clusterer, create_policy
from coe_agents.config.schema import Config, load_config
from coe_agents.graph import CoEInput, CoEOutput, CoEState
from coe_agents.policy import Policy


@dataclass(frozen=True, slots=True)
class Configuration:
    """The objects of a configuration file.

    Attributes:
        agents: The agents, in the order of the file.
        clusterer: Decides which responses mean the same.
        policy: Decides between an answer, an abstention, an escalation and another round.
        settings: The validated fields of the file.
    """

    agents: list[ModelAgent]
    clusterer: Clusterer
    policy: Policy
    settings: Config = field(repr=False)

    def create_graph(self) -> StateGraph[CoEState, None, CoEInput, CoEOutput]:
        """Returns the graph of the file, uncompiled; see `coe_agents.create_coe_graph`.

        Raises:
            ConfigurationError: If the parts cannot be combined; the message has a line for each mistake.
        """
        graph: StateGraph[CoEState, None, CoEInput, CoEOutput] = assemble(self.settings)
        return graph


def load(path: str | Path) -> Configuration:
    """Reads a TOML file and returns its objects; no model is called or loaded yet.

    Raises:
        ConfigurationError: If the file cannot be read or is invalid; the message names file, line and field.

    Example:
        >>> from importlib import resources
        >>> with resources.as_file(resources.files("coe_agents.cli") / "coe.toml") as path:
        ...     config = load(path)
        >>> [agent.name for agent in config.agents], config.policy
        (['llama', 'qwen'], ThresholdPolicy(0.7, otherwise='abstain'))
    """
    settings = load_config(Path(path))
    return Configuration(create_agents(settings), create_clusterer(settings), create_policy(settings), settings)
