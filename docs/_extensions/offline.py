"""The built site loads nothing from the network: a page that would fails the build."""

import re
from pathlib import Path

from sphinx.errors import ExtensionError

LOADED = (
    re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'\s>]+"""),
    re.compile(r"""<link\b(?=[^>]*\brel=["'](?:stylesheet|preload|icon))[^>]*\bhref=["']https?:"""),
    re.compile(r"""@import\s+(?:url\()?["']?https?:[^"')]+"""),
)


def from_the_network(text):
    """Return what a page or a style sheet would load from another machine."""
    return [found for pattern in LOADED for found in pattern.findall(text)]


def check(app, exception):
    """Look at every page and style sheet that was built."""
    if exception is not None:
        return
    for path in Path(app.outdir).rglob("*"):
        if path.suffix in (".html", ".css"):
            for found in from_the_network(path.read_text(encoding="utf-8")):
                raise ExtensionError(f"{path.name} loads something from the network: {found}")


def setup(app):
    """Check when everything is built."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
