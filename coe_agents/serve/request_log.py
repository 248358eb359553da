"""Owns the server's log: a line for each request, without question, answer or key."""

import logging
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger("coe_agents.serve")
_OUTCOME = "coe_agents.outcome"
NoteRequest = Callable[[str, int, float], None]


class RequestLog:
    """Logs method, address, status, seconds, and the action and numbers of a decision; lets no exception through.

    An address that is not among `paths` is not logged: it may hold anything. `note_request` is passed the address,
    status and seconds of each request, too.
    """

    def __init__(self, app: ASGIApp, *, paths: frozenset[str], note_request: NoteRequest | None = None) -> None:
        self._app, self._paths, self._note_request = app, paths, note_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 0
        outcome = scope[_OUTCOME] = dict[str, Any]()

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note_status)
        except Exception as error:
            log_failure(error)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "(another address)"
            words = "".join(f" {name} {value}" for name, value in outcome.items())
            method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD", "OPTIONS") else "(another method)"
            seconds = time.monotonic() - start
            LOG.info("%s %s %d %.2f s%s", method, path, status, seconds, words)
            if self._note_request is not None:
                self._note_request(path, status, seconds)


def note_decision(scope: Scope, decision: Mapping[str, Any]) -> None:
    """Adds the action and the numbers of a decision to the line of a request."""
    outcome = scope.get(_OUTCOME, {})
    outcome["action"] = decision["action"]
    if decision["coe"] is not None:
        outcome.update(regime=decision["regime"], coe=f"{decision['coe']:.3f}")
    if decision["failed_agents"]:
        outcome["failed"] = len(decision["failed_agents"])


def log_failure(error: BaseException) -> None:
    """Logs the kind of an error, and where it was raised; its message may quote a response, or hold a key."""
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    LOG.error("%s\n%s", type(error).__name__, frames)
