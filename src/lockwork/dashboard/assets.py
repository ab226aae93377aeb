"""Scripts and styles, from memory, compressed once, named by their hashes so that browsers cache them forever."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
NAMES = ("app.css", "app.js", "icon.svg", "vendor/htmx.min.js", "vendor/uplot.min.js", "vendor/uplot.min.css")


class Asset:
    """One file."""

    def __init__(self, name: str) -> None:
        self.content: bytes = resources.files("lockwork.dashboard").joinpath("static", *name.split("/")).read_bytes()
        self.compressed: bytes = gzip.compress(self.content, 9, mtime=0)
        self.version: str = hashlib.sha256(self.content).hexdigest()[:12]
        self.type: str = _TYPES[name.rpartition(".")[2]]


@cache
def asset(name: str) -> Asset:
    """Read a file once."""
    return Asset(name)


async def serve(request: Request) -> Response:
    """Answer a request for a file."""
    name = request.path_params["name"]
    if name not in NAMES:
        return Response("no such file\n", 404, media_type="text/plain")
    file = asset(name)
    packed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.compressed if packed else file.content, headers=headers, media_type=file.type)
