"""Owns the configuration of models that are named in a command: what `config init` writes, and `--model` asks."""

import json
import os
from collections.abc import Sequence

from coe_agents.agents._requests.chat_models import free_name
from coe_agents.errors import ConfigurationError

EXAMPLES = ("transformers:Qwen/Qwen2.5-1.5B-Instruct", "transformers:HuggingFaceTB/SmolLM2-1.7B-Instruct")
"""The models of a file for which none are named: they need no server and no key."""
_KEY = "OPENAI_API_KEY"
_HEAD = """\
# coe-agents ask "QUESTION" --config FILE: these models are asked, and answer only where each is sure and they agree.
# coe-agents doctor --config FILE tries each model. Every field is in examples/coe.toml of the repository.
"""
_OF_SERVERS = """\
# base_url = "http://127.0.0.1:8000/v1"   # of a server with OpenAI's protocol, such as vLLM
# api_key_env = "MY_KEY"                  # the NAME of the variable that holds the server's key
"""
_SHORT = 'kind = "short"                            # names, numbers, a few words; or "sentences", with a "judge"'
_REST = f"""
[answers]
{_SHORT}

[policy]
kind = "regime"                           # answers in consensus only
# actions = {{ conflict = "escalate" }}     # what to do where the models disagree; "abstain" unless given
"""


def models_to_toml(models: Sequence[str], *, n_samples: int = 5, answers: str = "short") -> str:
    """Returns the text of a configuration file that asks these models, each named as "provider:model".

    The first of them is the judge of `answers` that are "sentences". Those of openai are asked at `OPENAI_BASE_URL`, if
    it is set.

    Raises:
        ConfigurationError: If a name has no provider.

    Example:
        >>> [line for line in models_to_toml(["openai:gpt-5-mini"]).splitlines() if line.startswith("model")]
        ['model = "gpt-5-mini"']
    """
    server, address = dict[str, str](), os.environ.get("OPENAI_BASE_URL")
    if address:
        server = {"base_url": address, **({"api_key_env": _KEY} if os.environ.get(_KEY) else {})}
    tables, names, rest = list[str](), set[str](), _REST
    for place, model in enumerate(models):
        provider, separator, name = model.partition(":")
        if not (provider and separator and name):
            message = f'a model must be named as "provider:model"; got {model!r}'
            hint = "Write openai:gpt-5-mini, or transformers:FOLDER for a model in this process"
            raise ConfigurationError(message, hint=hint)
        names.add(agent := free_name(model, names))
        fields = {"provider": provider, "model": name, **(server if provider == "openai" else {})}
        client = [f"{field} = {json.dumps(value)}" for field, value in fields.items()]
        lines = "\n".join([f"name = {json.dumps(agent)}", *client, f"n_samples = {n_samples}", ""])
        tables.append(f"\n[[agents]]\n{lines}{'' if place or 'base_url' in fields else _OF_SERVERS}")
        if answers == "sentences" and not place:
            judge = ", ".join(client)
            rest = rest.replace(_SHORT, f'kind = "sentences"\njudge = {{ {judge} }}')
    return _HEAD + "".join(tables) + rest
