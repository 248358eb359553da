"""Owns the page for people: files of the package, which load nothing from elsewhere."""

from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_SCRIPTS = ("page.js", "decision.js", "gate.js", "plane.js", "requests.js", "text.js")
_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    **{f"/{name}": (name, "text/javascript") for name in _SCRIPTS},
}


def page_routes() -> list[Route]:
    """Returns the addresses of the page and its parts; each file is read once."""
    return [_create_route(path, *file) for path, file in _FILES.items()]


def _create_route(path: str, name: str, kind: str) -> Route:
    content = resources.files(__package__ or "").joinpath("page", name).read_bytes()

    async def show(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return Route(path, show)
