"""Owns what a page may do in a browser, and how its parts become one piece of HTML.

What models wrote is untrusted. It is in a page as base64 of gzip, so no text of theirs is ever parsed as HTML, and is
shown as text nodes; names are escaped by the template. The page's policy lets only its own script run, by its hash,
and forbids every connection.
"""

import base64
from datetime import UTC, datetime
from hashlib import sha256
from importlib import resources
from importlib.util import find_spec
from typing import Any

from coe_agents.text import quantity

_PACKAGE = "coe_agents.evaluation.html"


def check_jinja() -> None:
    """Raises ImportError if Jinja is not installed."""
    if find_spec("jinja2") is None:
        raise ImportError('a page needs Jinja; pip install "coe-agents[evaluation]"')


def read_parts(*names: str, package: str = _PACKAGE) -> str:
    """Returns files of a package, one after the other: scripts are one module then."""
    folder = resources.files(package)
    return "".join(folder.joinpath(name).read_text("utf-8") for name in names)


STYLE = ("parts.css", "page.css")
SCRIPT = ("parts.js", "base.js", "table.js")
"""The parts that the report and the page of runs share."""


def render(template: str, *, style: str, script: str, **values: Any) -> str:
    """Returns the page: a template in the frame of all pages ("frame.html"), with values, which are escaped.

    The frame reads of them `title`, the heading; `topic`, what the page is about, beside its title in the browser; and
    `facts`, the sentences that it begins with. Both from `pack`: the script reads `overview` at once, and one of the
    `blocks` when a question is opened.
    """
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup

    frame = DictLoader({"frame.html": read_parts("frame.html")})
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, loader=frame)
    return environment.from_string(template).render(
        **values,
        quantity=quantity,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        style=Markup(style),
        script=Markup(script),
        style_hash=_digest(style),
        script_hash=_digest(script),
    )


def _digest(source: str) -> str:
    return f"sha256-{base64.b64encode(sha256(source.encode()).digest()).decode()}"
