"""What a model supports is detected at the first requests, remembered, and reported. Real clients, local servers."""

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from coe_agents import ModelAgent
from coe_agents.errors import AgentError
from coe_agents.types import AgentReply
from tests.doubles import REQUEST
from tests.graph.groups import graph
from tests.servers import Served, served

TEXTS = ["It is Paris.", "Lyon", "Paris"]


def agent(server: Served, fields: dict | None = None, **options) -> ModelAgent:
    chosen = {"n_samples": 3, "temperature": 0.7, "seed": 1, **options}
    return ModelAgent("a", server.chat(**fields or {}), **chosen)


def texts_of(reply: AgentReply) -> list[str]:
    return sorted(response["text"] for response in reply["responses"])


@pytest.mark.parametrize(
    ("server_options", "rung", "refused", "n_requests"),  # of the first reply, and of the second
    [
        ({}, "n-logprobs", [], (1, 1)),
        ({"ignores_logprobs": True}, "n", [], (1, 1)),
        ({"refuses": ("logprobs",)}, "n", ["logprobs"], (2, 1)),
        ({"ignores_n": True}, "each-logprobs", [], (4, 3)),
        ({"refuses": ("n", "logprobs")}, "each", ["n", "logprobs"], (5, 3)),
        ({"refuses": ("temperature",)}, "n-logprobs", ["temperature"], (2, 1)),
    ],
)
def test_what_a_server_does_not_take_is_left_out_and_remembered(
    server_options, rung, refused, n_requests
):
    with served(**server_options) as server:
        one = agent(server)
        first = one.sample(REQUEST)
        assert len(server.requests) == n_requests[0]
        second = one.sample(REQUEST)
        assert len(server.requests) == sum(n_requests)
    for reply in (first, second):
        assert texts_of(reply) == TEXTS
        assert reply["sampling"]["rung"] == rung
        assert reply["sampling"]["refused"] == refused
        has_logprobs = rung.endswith("logprobs")
        assert all(
            (response["logprob"] is not None) == has_logprobs for response in reply["responses"]
        )
        assert reply["sampling"]["logprobs_missing"] == (0 if has_logprobs else 3)
    assert not any(name in server.requests[-1] for name in refused)


def test_the_responses_api_has_neither():
    with served() as server:
        reply = agent(server, fields={"use_responses_api": True}).sample(REQUEST)
    assert texts_of(reply) == TEXTS
    assert len(server.requests) == 3
    assert reply["sampling"]["rung"] == "each"
    assert set(reply["sampling"]["refused"]) == {"n", "logprobs", "seed"}


class Plain(BaseChatModel):
    fails: bool = False
    seen: list[dict] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "plain"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        self.seen.append(options)
        if self.fails:
            raise PermissionError("no")
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Paris"))])

    def _stream(self, messages, stop=None, run_manager=None, **options):
        raise AssertionError("streamed")


def test_a_model_that_fails_at_once_is_asked_once_and_one_that_can_stream_does_not():
    model = Plain(fails=True)
    with pytest.raises(AgentError, match="PermissionError: no"):
        ModelAgent("a", model, n_samples=5).sample(REQUEST)
    assert len(model.seen) == 1
    model = Plain()
    compiled = graph(ModelAgent("a", model, n_samples=2)).compile()
    shown = [
        message.text for message, _ in compiled.stream({"question": "Q?"}, stream_mode="messages")
    ]
    assert shown == ["Q?", "Paris"]
    assert model.seen == [{}, {}]
