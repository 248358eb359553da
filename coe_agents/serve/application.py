"""Owns the server as an ASGI application: which address answers what."""

import asyncio
import json
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from coe_agents._removed import refuses_removed
from coe_agents.actions.proposals import describe_action
from coe_agents.actions.structured import answer_tool
from coe_agents.checks import flag, one_of
from coe_agents.clustering.refusals import answer_kind
from coe_agents.decision import GroupDecision
from coe_agents.decision.refusal import refusal
from coe_agents.decision.views import to_public
from coe_agents.graph.context import CallersLimits
from coe_agents.serve.access import (
    LOOPBACK,
    Admission,
    Guard,
    RequestLog,
    note_decision,
    read_object,
)
from coe_agents.serve.api_error import ApiError, caller_gone, json_response
from coe_agents.serve.chat_request import ChatRequest, check_model, read_chat_request, read_messages
from coe_agents.serve.completion import (
    Refusals,
    Reply,
    to_chunks,
    to_completion,
    to_response,
    to_response_events,
)
from coe_agents.serve.response_request import read_response_request
from coe_agents.serve.served_group import Group, Runs
from coe_agents.types import Fields, JsonObject


def read_question(body: Fields) -> tuple[list[JsonObject], Fields]:
    """Returns the conversation, with the question at its end, and the options of the gate in a body.

    Raises `ApiError` if it holds anything else.
    """
    question = body.get("question")
    if not isinstance(question, str) or not question.strip():
        raise ApiError(400, '"question" must be a text that is not blank. Add it', param="question")
    options = body.get("coe") or {}
    before = body.get("messages") or []
    is_read = isinstance(options, Mapping) and isinstance(before, list)
    if not is_read or body.keys() - {"question", "coe", "messages"}:
        raise ApiError(
            400,
            'the body must hold "question" and at most an object "coe" and a list "messages". Correct it',
        )
    return read_messages([*before, {"role": "user", "content": question}]), options


async def stream_events(
    runs: Runs, messages: Sequence[Fields], limits: CallersLimits, scope: Scope
) -> AsyncIterator[str]:
    """Yields server-sent events: those of `coe_agents.graph.events` by name, then "decision" or "error"."""
    start = time.perf_counter()
    question = messages[-1]["content"]
    gate = runs.group.describe_policy(limits)
    try:
        async for chunk in runs.stream({"messages": list(messages)}, limits):
            if "event" in chunk:
                yield _format(chunk["event"], chunk)
                continue
            note_decision(scope, chunk["decision"])
            seconds = time.perf_counter() - start
            yield _format("decision", to_report(question, chunk, seconds, gate))
    except ApiError as error:
        yield _format("error", {"message": error.message})


def to_report(question: str, result: Fields, seconds: float, gate: Fields) -> JsonObject:
    """Returns the result of a run, which took so many seconds under the thresholds of `gate`, as JSON.

    Returns:
        The keys of `coe_agents.decision.DecisionData`, and: "question"; "seconds"; "headline", one plain sentence;
        "explanation", the sentences of `GroupDecision.explain`; "thresholds"; "clusters", for each one a
        "representative" and its "support"; "declining", those that decline to answer; "responses", by agent, of
        "text", "answer", "cluster" (the place in "clusters"; None for a failure), "round" and "error".
    """
    decision = result["decision"]
    labels = result["labels"]
    responses: dict[str, list[JsonObject]] = {}
    for place, response in enumerate(result["responses"]):
        row = {name: response[name] for name in ("text", "answer", "round", "error")}
        row["cluster"] = labels[place] if place < len(labels) else None
        responses.setdefault(response["agent"], []).append(row)

    clusters = list[JsonObject]()
    declining = list[str]()
    for text, share in decision["support"].items():
        clusters.append({"representative": text, "support": share})
        if answer_kind(text) == "refusal":
            declining.append(text)

    return {
        **decision,
        "question": question,
        "seconds": round(seconds, 3),
        "headline": _headline(decision),
        "explanation": GroupDecision.from_state(result).explain().splitlines(),
        "thresholds": {name: value for name, value in gate.items() if name != "type"},
        "clusters": clusters,
        "declining": declining,
        "responses": responses,
    }


def _headline(decision: Fields) -> str:
    calls = decision.get("calls")
    if calls:
        return describe_action(json.dumps(calls))
    if decision["action"] == "answer":
        answer: str = decision["answer"]
        return answer
    return refusal(decision)


def _format(kind: str, content: Fields) -> str:
    return f"event: {kind}\ndata: {json.dumps(content)}\n\n"


class _Api(NamedTuple):
    """One of OpenAI's APIs: how a request is read, and a reply written, whole or as events."""

    read: Callable[..., ChatRequest]
    to_whole: Callable[[Reply], JsonObject]
    to_events: Callable[[Reply], Iterator[str]]
    messages: str
    """The field of the messages, the question among them."""


_APIS: Mapping[str, _Api] = {
    "/v1/chat/completions": _Api(read_chat_request, to_completion, to_chunks, "messages"),
    "/v1/responses": _Api(read_response_request, to_response, to_response_events, "input"),
}
"""What OpenAI's clients ask, by address: two views of one run."""
_ADDRESSES = [f"POST {path}" for path in _APIS] + ["GET /v1/models"]
_NOT_FOUND = (
    "there is nothing at this address. The base URL for OpenAI's clients ends in /v1: "
    f"{', '.join(_ADDRESSES)}"
)
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_PAGE = dict[str, Traversable]()
"""The page for people by address: files of packages, which load nothing from elsewhere."""
for _folder in ("serve/page", "page_parts"):
    for _file in resources.files("coe_agents").joinpath(_folder).iterdir():
        if Path(_file.name).suffix in _KINDS:
            _PAGE[f"/{_file.name}"] = _file
_PAGE["/"] = _PAGE.pop("/index.html")
_T = TypeVar("_T")


@refuses_removed
def create_app(
    group: Group,
    *,
    key: str | None = None,
    hosts: Collection[str] = LOOPBACK,
    max_requests: int = 256,
    max_bytes: int = 1_000_000,
    metrics: bool = False,
    refusals: Refusals = "content",
) -> ASGIApp:
    """Returns the server of a group as an ASGI application, for uvicorn or another server.

    Args:
        group: The group.
        key: What callers must send; None lets everybody ask who reaches the server.
        hosts: The names under which the server is asked; others are refused.
        max_requests: How many questions are answered at a time; further ones get 429.
        max_bytes: The size of a request; larger ones get 413.
        metrics: Whether /metrics has metrics for Prometheus.
        refusals: Where a reply says why there is no answer: "field" is OpenAI's "refusal" alone, which many clients
            drop, so that they show an empty answer; "content" is also where an answer stands, with the `finish_reason`
            "content_filter".

    Raises:
        ImportError: If metrics are asked for, and OpenTelemetry's exporter is not installed.
        ValueError: If the key is blank, or `refusals` is another word.
    """
    one_of(refusals, '"refusals"', get_args(Refusals), advice='"content" suits all clients')
    measured = None
    if flag(metrics, '"metrics"'):
        from coe_agents.serve.prometheus import Metrics  # here, since it needs an exporter

        measured = Metrics(lambda: admission.n_inside)
    callbacks = [measured.telemetry] if measured else []
    runs = Runs(group, callbacks)
    endpoints = _Endpoints(group, runs, max_bytes, refusals)
    model = {
        "id": group.name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "coe-agents",
    }

    async def show_model(request: Request) -> Response:
        check_model(request.path_params["name"], group.name)
        return json_response(model)

    routes = [
        _shows("/health", lambda: {"status": "ok"}),
        _shows("/v1/models", lambda: {"object": "list", "data": [model]}),
        Route("/v1/models/{name:path}", show_model),
        _shows("/group", group.describe),
        Route("/events", endpoints.show_events, methods=["POST"]),
    ]
    for path, api in _APIS.items():
        routes.append(Route(path, partial(endpoints.answer, api), methods=["POST"]))
    for path, file in _PAGE.items():
        routes.append(_page_route(path, file))
    note_request = None
    if measured:
        routes.append(Route("/metrics", measured.show))
        note_request = measured.note_request

    handlers = dict.fromkeys((ApiError, HTTPException, Exception), _respond_to_error)
    answering = Starlette(routes=routes, exception_handlers=handlers)
    answering.router.redirect_slashes = False
    # a request passes from the log to the guard, and is counted once it has passed that
    admission = Admission(answering, most=max_requests)
    guard = Guard(admission, hosts=hosts, key=key)
    paths = frozenset(route.path for route in routes)
    return RequestLog(guard, paths=paths, note_request=note_request)


@dataclass(frozen=True, slots=True)
class _Endpoints:
    """What answers a question: as one of OpenAI's APIs does it, or with the events of the run."""

    group: Group
    runs: Runs
    max_bytes: int
    refusals: Refusals

    async def answer(self, api: _Api, request: Request) -> Response:
        body = await read_object(request, max_bytes=self.max_bytes)
        chat_request = await asyncio.to_thread(api.read, body, model=self.group.name)
        limits = self.group.tighten(chat_request.coe)
        self.group.check_question(chat_request.question, param=api.messages)
        result = await _unless_gone(request, self.runs.run(chat_request.graph_input, limits))

        tools = list(chat_request.tools)
        if chat_request.schema is not None:
            tools.append(answer_tool(chat_request.schema))
        decision = to_public(
            result["decision"],
            tools,
            most_calls=chat_request.most_calls,
            must_call=chat_request.must_call,
        )
        if decision["action"] == "answer" and decision["answer"] is not None:
            decision["answer"] = chat_request.cut(decision["answer"])
        note_decision(request.scope, decision)

        reply = Reply(
            decision=decision, model=self.group.name, request=chat_request, refusals=self.refusals
        )
        if not chat_request.is_stream:
            return json_response(api.to_whole(reply))
        events = "".join(api.to_events(reply))
        return Response(events, media_type="text/event-stream")

    async def show_events(self, request: Request) -> Response:
        body = await read_object(request, max_bytes=self.max_bytes)
        messages, options = await asyncio.to_thread(read_question, body)
        limits = self.group.tighten(options)
        self.group.check_question(messages[-1]["content"], param="question")
        events = stream_events(self.runs, messages, limits, request.scope)
        headers = {"cache-control": "no-store"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def _shows(path: str, describe: Callable[[], JsonObject]) -> Route:
    async def show(request: Request) -> Response:
        return json_response(describe())

    return Route(path, show)


async def _respond_to_error(request: Request, error: Exception) -> Response:
    if isinstance(error, ApiError):
        return error.to_response()
    if not isinstance(error, HTTPException):
        return ApiError(500, f"the server failed ({type(error).__name__})").to_response()
    # of the routing: no such address, or another method
    message = error.detail
    if error.status_code == 404:
        message = _NOT_FOUND
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "POST")
        message = f"this address takes another method: {allowed}"
    return ApiError(error.status_code, message, headers=error.headers).to_response()


async def _unless_gone(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Returns the result of `work`, which is cancelled where the caller drops the connection before: an `ApiError`."""
    working = asyncio.create_task(work)
    gone = asyncio.create_task(_wait_until_gone(request))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise caller_gone()
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _page_route(path: str, file: Traversable) -> Route:
    content = file.read_bytes()
    kind = _KINDS[Path(file.name).suffix]

    async def show(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return Route(path, show)
