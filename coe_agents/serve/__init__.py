"""Owns the server that offers a group as one model to OpenAI's clients."""

try:
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        'the server needs starlette and uvicorn; pip install "coe-agents[serve]"'
    ) from error

from coe_agents.serve.application import create_app
from coe_agents.serve.served_group import Group

__all__ = ["Group", "create_app"]
