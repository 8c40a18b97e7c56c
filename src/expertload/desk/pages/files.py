"""Styles and script: read and compressed once, and cached by browsers under their digest."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from expertload.desk.pages.route import HEADERS, PageRoute
from expertload.exceptions import DeskRefusedError

__all__ = ["address_of", "router"]

router = APIRouter(route_class=PageRoute)
# The desk uses the style of the report, so that both look alike.
SOURCES = {
    "base.css": ("expertload.report", "templates/page.css", "text/css; charset=utf-8"),
    "desk.css": ("expertload.desk.pages", "static/desk.css", "text/css; charset=utf-8"),
    "desk.js": ("expertload.desk.pages", "static/desk.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("expertload.desk.pages", "static/icon.svg", "image/svg+xml"),
}


@dataclass(frozen=True)
class _File:
    content: bytes
    compressed: bytes
    media_type: str
    digest: str


@cache
def _file(name: str) -> _File:
    package, path, media_type = SOURCES[name]
    content = files(package).joinpath(path).read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return _File(content, gzip.compress(content, mtime=0), media_type, digest)


def address_of(name: str) -> str:
    """Return the address of a file, with its digest, so that a new version has a new address."""
    return f"/static/{_file(name).digest}/{name}"


@router.get("/static/{digest}/{name}")
async def send(digest: str, name: str, request: Request) -> Response:
    """Send a file, to anybody."""
    if name not in SOURCES or _file(name).digest != digest:
        raise DeskRefusedError("not_found", "There is no such file.")
    file = _file(name)
    headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    headers["Vary"] = "Accept-Encoding"
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.compressed, headers=headers, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)
