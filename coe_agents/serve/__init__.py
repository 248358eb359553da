"""Owns the server that offers a group as one model to OpenAI's clients."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from coe_agents._first_use import on_first_use

if find_spec("starlette") is None or find_spec("uvicorn") is None:
    raise ImportError('the server needs starlette and uvicorn; pip install "coe-agents[serve]"')

if TYPE_CHECKING:
    from coe_agents.serve.application import create_app
    from coe_agents.serve.served_group import Group
else:
    __getattr__, __dir__ = on_first_use(
        __name__, {"application": ("create_app",), "served_group": ("Group",)}
    )

__all__ = ["Group", "create_app"]
