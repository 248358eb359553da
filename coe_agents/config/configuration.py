"""Owns `load`: a configuration file as the objects that it names."""

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
    """What a configuration file names.

    Attributes:
        agents: The agents, in the order of the file.
        clusterer: Decides which responses mean the same.
        policy: Decides what to do.
        settings: The file itself, checked.
    """

    agents: list[ModelAgent]
    clusterer: Clusterer
    policy: Policy
    settings: Config = field(repr=False)

    def create_graph(self) -> StateGraph[CoEState, None, CoEInput, CoEOutput]:
        """Returns the graph of the file, uncompiled; see `coe_agents.create_coe_graph`.

        Raises:
            ConfigurationError: If the parts do not fit together; the message has a line for each mistake.
        """
        graph: StateGraph[CoEState, None, CoEInput, CoEOutput] = assemble(self.settings)
        return graph


def load(path: str | Path) -> Configuration:
    """Reads a TOML file and returns what it names; nobody is called, and no model is loaded yet.

    Raises:
        ConfigurationError: If the file cannot be read or does not fit; the message names file, line and field.

    Example:
        >>> from importlib import resources
        >>> with resources.as_file(resources.files("coe_agents.cli") / "coe.toml") as path:
        ...     config = load(path)
        >>> [agent.name for agent in config.agents], config.policy
        (['llama', 'qwen'], ThresholdPolicy(0.7, otherwise='abstain'))
    """
    settings = load_config(Path(path))
    return Configuration(create_agents(settings), create_clusterer(settings), create_policy(settings), settings)
