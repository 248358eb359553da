"""Owns the process that serves: its socket, its logs, and its end."""

import logging
import signal
import socket

import uvicorn
from starlette.types import ASGIApp

_SHOWN = ("coe_agents.serve", "uvicorn")


class SafeFormatter(logging.Formatter):
    """Formats the messages of the server itself, and of other packages only who logs, and the kind of an exception.

    What the client of a model logs may quote a response or hold a key; so may the message of any exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        bare = logging.makeLogRecord(record.__dict__ | {"exc_info": None, "exc_text": None, "stack_info": None})
        if not record.name.startswith(_SHOWN):
            bare.msg, bare.args = f"{record.name} logs a message, which is not shown", ()
        if record.exc_info and record.exc_info[0]:
            bare.msg = f"{bare.msg} ({record.exc_info[0].__name__})"
        return super().format(bare)


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that listens; port 0 takes a free one.

    Raises:
        OSError: If the address is not available.
    """
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048)


def address_of(listening: socket.socket) -> str:
    """Returns the address that a browser on this machine opens."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # all addresses of the machine
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(app: ASGIApp, listening: socket.socket, *, grace: int) -> None:
    """Serves until SIGINT or SIGTERM; questions in flight are then answered for up to `grace` seconds."""
    set_up_logs()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=grace,
    )
    signals = (signal.SIGINT, signal.SIGTERM)
    for each in signals:  # uvicorn raises the signal again once it has ended
        signal.signal(each, signal.SIG_IGN)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        for each in signals:
            signal.signal(each, signal.SIG_DFL)


def set_up_logs() -> None:
    """Writes records of our own from INFO on, and of others from WARNING on, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(SafeFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("coe_agents.serve").setLevel(logging.INFO)
