"""What readers see of a case. It is never trusted: images are decoded and drawn again, or refused.

Every stored image was drawn by this process, so no script, metadata or trailing bytes survive. The
size is read from the header before any pixel is unpacked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import warnings
from dataclasses import dataclass, field
from typing import Any

from expertload._validation import require_extra
from expertload.exceptions import DeskRefusedError

__all__ = ["Body", "read_body"]

MOST_IMAGE_BYTES = 20_000_000
MOST_PIXELS = 40_000_000
LONGEST_SIDE = 16_384
MOST_TEXT = 1_000_000
MOST_CELLS = 100_000
DEEPEST = 50
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
DRAWN = {"1", "L", "LA", "P", "RGB", "RGBA", "I;16"}


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it is stored: its kind, its media type, its bytes and their digest."""

    kind: str
    media_type: str
    content: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """Digest of the bytes."""
        return hashlib.sha256(self.content).hexdigest()


def read_body(value: Any) -> Body:
    """Read ``{"kind": "image", "text", "table" or "json", "content": ...}``."""
    if not isinstance(value, dict) or set(value) != {"kind", "content"}:
        raise _refuse("A body must be an object with 'kind' and 'content'.")
    kind, content = value["kind"], value["content"]
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise _refuse(f"A body's 'kind' must be one of {', '.join(_READERS)}.")
    return reader(content)


def _image(content: Any) -> Body:
    if not isinstance(content, str):
        raise _refuse("An image's 'content' must be text in base64.")
    if len(content) > MOST_IMAGE_BYTES * 4 // 3:
        raise _refuse(f"An image must have at most {MOST_IMAGE_BYTES} bytes.")
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise _refuse("An image's 'content' must be text in base64.") from None
    return _redrawn(data)


def _redrawn(data: bytes) -> Body:
    require_extra("PIL", "desk", "A body with an image")
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _check_size(image.width, image.height)
                image.load()
                return _encoded(image, image.format)
    except DeskRefusedError:
        raise
    except Exception as error:  # given hostile bytes, decoders raise anything
        raise _refuse(
            f"The image could not be read ({type(error).__name__}).",
            f"send one of {', '.join(FORMATS)}; SVG is not accepted.",
        ) from None


def _check_size(width: int, height: int) -> None:
    if width * height > MOST_PIXELS or max(width, height) > LONGEST_SIDE:
        raise _refuse(
            f"An image must have at most {MOST_PIXELS} pixels and sides of at most "
            f"{LONGEST_SIDE}. Got {width} x {height}."
        )


def _encoded(image: Any, sent_as: str | None) -> Body:
    """Draw the pixels into a new file: JPEG stays JPEG, the rest becomes PNG without loss.

    A camera notes how it was held, and every viewer turns the image by that note. The note is not
    kept, so the image is turned here.
    """
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if sent_as == "JPEG":
        mode = image.mode if image.mode in {"L", "RGB"} else "RGB"
        kind, options = "JPEG", {"quality": 95, "subsampling": 0}
    else:
        mode = image.mode if image.mode in DRAWN else "RGBA"
        kind, options = "PNG", {}
    drawn = image if image.mode == mode else image.convert(mode)
    clean = Image.new(drawn.mode, drawn.size)
    if drawn.mode == "P":
        clean.putpalette(drawn.getpalette() or [])
    clean.paste(drawn)
    out = io.BytesIO()
    clean.save(out, kind, **options)
    return Body("image", f"image/{kind.lower()}", out.getvalue())


def _text(content: Any) -> Body:
    if not isinstance(content, str):
        raise _refuse("A text's 'content' must be text.")
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise _refuse("A text's 'content' must be valid Unicode.") from None
    if len(data) > MOST_TEXT:
        raise _refuse(f"A text must have at most {MOST_TEXT} bytes. Got {len(data)}.")
    return Body("text", "text/plain; charset=utf-8", data)


def _table(content: Any) -> Body:
    """Read rows of cells; the first row has the names of the columns."""
    rows = content if isinstance(content, list) else None
    if not rows or not all(isinstance(row, list) and row for row in rows):
        raise _refuse("A table's 'content' must be a list of rows, the first with column names.")
    if any(len(row) != len(rows[0]) for row in rows):
        raise _refuse("A table's rows must all have the same length.")
    if len(rows) * len(rows[0]) > MOST_CELLS:
        raise _refuse(f"A table must have at most {MOST_CELLS} cells.")
    if any(isinstance(cell, dict | list) for row in rows for cell in row):
        raise _refuse("A table's cells must be text, numbers, true, false or null.")
    return Body("table", "application/json", _as_json(rows))


def _json(content: Any) -> Body:
    return Body("json", "application/json", _as_json(content))


def _as_json(content: Any) -> bytes:
    try:
        _check_depth(content)
        data = json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, UnicodeEncodeError):
        raise _refuse("A body must be plain JSON, without NaN or invalid characters.") from None
    if len(data) > MOST_TEXT:
        raise _refuse(f"A body must have at most {MOST_TEXT} bytes. Got {len(data)}.")
    return data


def _check_depth(content: Any) -> None:
    level = [content]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise _refuse(f"A body may have at most {DEEPEST} nested levels.")


def _refuse(said: str, hint: str = "") -> DeskRefusedError:
    return DeskRefusedError("bad_body", said, hint)


_READERS = {"image": _image, "text": _text, "table": _table, "json": _json}
