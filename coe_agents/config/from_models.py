"""Owns the configuration of models that are named in a command: what `config init` writes, and `--model` asks."""

import json
from collections.abc import Sequence

from coe_agents.agents._requests.chat_models import free_name
from coe_agents.errors import ConfigurationError

EXAMPLES = ("transformers:Qwen/Qwen2.5-1.5B-Instruct", "transformers:HuggingFaceTB/SmolLM2-1.7B-Instruct")
"""The models of a file for which none are named: they need no server and no key."""
_HEAD = """\
# coe-agents ask "QUESTION" --config FILE: these models are asked, and answer only where each is sure and they agree.
# coe-agents doctor --config FILE tries each model. Every field is in examples/coe.toml of the repository.
"""
_OF_SERVERS = """\
# base_url = "http://127.0.0.1:8000/v1"   # of a server with OpenAI's protocol, such as vLLM
# api_key_env = "MY_KEY"                  # the NAME of the variable that holds the server's key
"""
_REST = """
[answers]
kind = "short"                            # names, numbers, a few words; or "sentences", compared by a judge

[policy]
kind = "regime"                           # answers in consensus only
# actions = { conflict = "escalate" }     # what to do where the models disagree; "abstain" unless given
"""


def models_to_toml(models: Sequence[str], *, n_samples: int = 5) -> str:
    """Returns the text of a configuration file that asks these models, each named as "provider:model".

    Raises:
        ConfigurationError: If a name has no provider.

    Example:
        >>> [line for line in models_to_toml(["openai:gpt-5-mini"]).splitlines() if line.startswith("model")]
        ['model = "gpt-5-mini"']
    """
    tables, names = list[str](), set[str]()
    for place, model in enumerate(models):
        provider, separator, name = model.partition(":")
        if not (provider and separator and name):
            message = f'a model must be named as "provider:model"; got {model!r}'
            raise ConfigurationError(
                message, hint="Write openai:gpt-5-mini, or transformers:FOLDER for a model in this process"
            )
        names.add(agent := free_name(model, names))
        fields = {"name": agent, "provider": provider, "model": name, "n_samples": n_samples}
        lines = "".join(f"{field} = {json.dumps(value)}\n" for field, value in fields.items())
        tables.append(f"\n[[agents]]\n{lines}{'' if place else _OF_SERVERS}")
    return _HEAD + "".join(tables) + _REST
