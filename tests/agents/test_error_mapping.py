"""What is made of errors of other clients than OpenAI's, told apart by class names and status alone."""

import json
from types import SimpleNamespace

import httpx
import pytest

from coe_agents import errors
from coe_agents.agents.error_mapping import refused_option, to_agent_error


def status_error(status: int, message: str = "no", **headers: str) -> httpx.HTTPStatusError:
    response = httpx.Response(status, headers=headers)
    return httpx.HTTPStatusError(
        message, request=httpx.Request("POST", "http://x"), response=response
    )


class GatewayError(Exception):
    status_code = 529


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (httpx.ConnectError("refused"), errors.AgentConnectionError, True),
        (TimeoutError(), errors.AgentTimeoutError, True),
        (status_error(401), errors.AuthenticationError, False),
        (status_error(404), errors.ModelNotFoundError, False),
        (status_error(408), errors.AgentTimeoutError, True),
        (status_error(400, "prompt is too long"), errors.ContextOverflowError, False),
        (status_error(400), errors.InvalidRequestError, False),
        (status_error(429), errors.RateLimitError, True),
        (GatewayError("overloaded"), errors.ServerError, True),
        (json.JSONDecodeError("bad", "{", 0), errors.InvalidReplyError, True),
        (ValueError("a mistake"), errors.AgentError, False),
    ],
)
def test_kinds(error, kind, retryable):
    found = to_agent_error(error)
    assert type(found) is kind
    assert found.retryable is retryable
    assert found.args[0]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("0.25", 0.25),
        ("-3", 0.0),
        *((text, None) for text in ("nan", "inf", "soon", "Mon, 01 Jan 2001 00:00:09 GMT")),
    ],
)
def test_retry_after_is_seconds(given, seconds):
    found = to_agent_error(status_error(429, **{"Retry-After": given}))
    assert found.retry_after == (None if seconds is None else pytest.approx(seconds, abs=2))


def test_secrets_and_endless_messages_are_not_told():
    found = to_agent_error(
        status_error(500, "token abcd-efgh-ijkl " + "x" * 10_000), secrets={"abcd-efgh-ijkl"}
    )
    assert "abcd" not in str(found)
    assert len(str(found)) < 500
    ours = errors.AgentError("the key abcd-efgh-ijkl", hint="abcd-efgh-ijkl")
    assert "abcd" not in str(to_agent_error(ours, secrets={"abcd-efgh-ijkl"}))


@pytest.mark.parametrize(
    ("error", "status", "option"),
    [
        (Exception("logprobs is not supported"), 400, "logprobs"),
        (Exception("You are not allowed to request logprobs from this model"), 403, "logprobs"),
        (Exception("Only one completion choice is allowed, parameter: n"), 400, "n"),
        (Exception("Invalid request: message n. 3 is empty, sign in at n.example"), 400, None),
        (Exception("temperature does not support 0.7 with this model"), 400, "temperature"),
        (Exception("temperature must be at most 2"), 400, None),
        (Exception("logprobs is not supported"), 500, None),
        (NotImplementedError("logprobs are unsupported"), None, "logprobs"),
        (TypeError("f() got an unexpected keyword argument 'seed'"), None, "seed"),
        (SimpleNamespace(param="n"), 400, "n"),
    ],
)
def test_a_refused_option_is_recognised(error, status, option):
    assert (
        refused_option(error, status, ("stream", "logprobs", "n", "seed", "temperature", "timeout"))
        == option
    )
    assert refused_option(error, status, ()) is None
