import pytest
from langgraph_sdk import get_sync_client

from tests.serving.server import running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server of `langgraph dev`; yields its address and its log."""
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def client(server):
    with get_sync_client(url=server[0]) as opened:
        yield opened
