"""One LangGraph server for all tests of this folder."""

import os

import pytest
from langgraph_sdk import get_sync_client

from tests.serving.server import running_server

# its tests need a copy of Agent Chat UI that was built: see the first lines there
collect_ignore = [] if os.environ.get("COE_AGENT_CHAT_UI") else ["test_agent_chat_ui.py"]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server of `langgraph dev`; yields its address and its log."""
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def client(server):
    with get_sync_client(url=server[0]) as opened:
        yield opened
