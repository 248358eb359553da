"""Owns the process that serves: its socket, its callers' connections, its logs, and its end.

uvicorn itself waits without end for the rest of a head, and for a caller who does not read; with httptools it also
takes a head of any size. All of this comes before the key is checked.
"""

import asyncio
import errno
import logging
import re
import signal
import socket
import warnings
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

_LOG = logging.getLogger("coe_agents.serve")
_KEEP_ALIVE = 75
"""Seconds; longer than clients keep a connection, so that none sends a request into one that is being closed."""
_SHOWN = ("coe_agents.serve", "uvicorn")
MAX_HEAD_BYTES = 65_536
"""The size of the request line with all headers; larger ones get 400."""
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_FOLDED = re.compile(rb"\n[ \t]")
LONGEST_HEAD = 30.0
"""Seconds in which a head must have arrived, from its first byte on, or from the connection's beginning."""
LONGEST_READ = 30.0
"""Seconds in which a caller must take what fills the buffers; after that the question is dropped."""


class Connection(H11Protocol):
    """Speaks HTTP with one caller, and drops the connection of one who neither sends nor reads."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._awaits_head: asyncio.TimerHandle | None = None
        self._awaits_reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            fault = self._find_fault(data)
            if fault is not None:
                self.send_400_response(fault)
                return
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        if self._find_fault() is not None:  # in the next head, which is here already
            self.transport.close()
            return
        super().on_response_complete()
        self._watch_head()

    def _find_fault(self, data: bytes = b"") -> str | None:
        """Returns what is wrong with the head of a request, as far as it is here.

        h11 takes a head of any size that arrives at once, and joins a line that begins with white space to the header
        before it, where a proxy may have seen two headers.
        """
        unread, _ = self.conn.trailing_data
        head = _END_OF_HEAD.split(unread + data, maxsplit=1)[0]
        if len(head) > MAX_HEAD_BYTES:
            return f"the headers must have at most {MAX_HEAD_BYTES} bytes"
        if _FOLDED.search(head):
            return "a header must be on one line"
        return None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._awaits_reading = self.loop.call_later(LONGEST_READ, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._awaits_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._awaits_head)
        _cancel(self._awaits_reading)
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        # between two requests uvicorn's own time limit is running, until the first byte of the next head
        is_due = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if not is_due:
            _cancel(self._awaits_head)
            self._awaits_head = None
        elif self._awaits_head is None:
            self._awaits_head = self.loop.call_later(LONGEST_HEAD, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class SafeFormatter(logging.Formatter):
    """Formats the messages of the server itself, and of other packages only who logs, and the kind of an exception.

    What the client of a model logs may quote a response or hold a key; so may the message of any exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        without_trace = {"exc_info": None, "exc_text": None, "stack_info": None}
        bare = logging.makeLogRecord(record.__dict__ | without_trace)
        if not record.name.startswith(_SHOWN):
            bare.msg = f"{record.name} logs a message, which is not shown"
            bare.args = ()
        if record.exc_info and record.exc_info[0]:
            bare.msg = f"{bare.msg} ({record.exc_info[0].__name__})"
        return super().format(bare)


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that listens; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        message = f"port {port} of {host} is taken: Address already in use"
        raise OSError(f"{message}. Choose another with --port; 0 takes a free one") from error


def address_of(listening: socket.socket) -> str:
    """Returns the address that a browser on this machine opens."""
    host, port = listening.getsockname()[:2]
    # a browser cannot open what stands for all addresses of the machine
    if host == "0.0.0.0":
        host = "127.0.0.1"
    elif host == "::":
        host = "::1"
    if ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"


def create_server(app: ASGIApp, *, grace: int) -> uvicorn.Server:
    """Returns the server of an application; `grace` is for how many seconds it answers once it is told to end."""
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=grace,
    )
    return uvicorn.Server(config)


def serve(app: ASGIApp, listening: socket.socket, *, grace: int) -> None:
    """Serves until SIGINT or SIGTERM; questions in flight are then answered for up to `grace` seconds.

    Records of its own from INFO on, and of others from WARNING on, are written to standard error.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(SafeFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    warnings.showwarning = log_warning
    _LOG.setLevel(logging.INFO)
    ends = (signal.SIGINT, signal.SIGTERM)
    for number in ends:  # uvicorn raises the signal again once it has ended
        signal.signal(number, signal.SIG_IGN)
    try:
        create_server(app, grace=grace).run(sockets=[listening])
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)


def log_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    """Logs the kind of a warning, and where it was given; its message may quote a response, as pydantic's do."""
    _LOG.warning("%s at %s:%d", category.__name__, filename, lineno)
