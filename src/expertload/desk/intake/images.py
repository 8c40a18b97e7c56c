"""Draws images again, in processes of their own that are given little time and memory.

Images come from strangers, and decoders have faults: one that hangs, crashes or fills the memory
must not take the desk with it. Each process runs this file alone, so it imports nothing of the
package. It answers each image on its standard input, preceded by its length, with "+", the media
type and the new file, or with "-" and a sentence.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import warnings
from queue import LifoQueue
from typing import Any, BinaryIO, TypeAlias, cast

MOST_PIXELS = 40_000_000
LONGEST_SIDE = 16_384
MOST_SCANS = 50
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
DRAWN = {"1", "L", "LA", "P", "RGB", "RGBA", "I;16"}
# A small file may become a large one when it is drawn again: at most so many times as large.
MOST_GROWTH = 4
ALWAYS_ALLOWED = 2_000_000  # bytes

SECONDS = 5.0
PROCESSES = 2
MOST_MEMORY = 2_000_000_000
Process: TypeAlias = "subprocess.Popen[bytes]"


class Refused(Exception):  # noqa: N818 - not an error: an answer
    """What is wrong with an image, in a sentence."""


def redrawn(data: bytes) -> tuple[str, bytes]:
    """Return the media type and the bytes of an image, drawn again by another process."""
    process = _PROCESSES.get()
    try:
        if process is None or process.poll() is not None:
            command = [sys.executable, "-P", __file__]  # -P: no modules from this folder
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        verdict, first, content = _drawn_by(process, data)
    except EOFError:
        _end(process)  # the next image starts another
        raise Refused(
            f"The image could not be read within {SECONDS:g} seconds, or its decoder crashed."
        ) from None
    finally:
        _PROCESSES.put(process)
    if verdict != b"+":
        raise Refused(first.decode())
    if len(content) > max(ALWAYS_ALLOWED, MOST_GROWTH * len(data)):
        raise Refused(
            f"The image has {len(data)} bytes, and would have {len(content)} when drawn again."
        )
    return first.decode(), content


def _drawn_by(process: Process, data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the answer of a process; raise EOFError if it took too long or crashed."""
    timer = threading.Timer(SECONDS, process.kill)
    timer.start()
    try:
        _send(cast("BinaryIO", process.stdin), data)
        verdict, first, content = (_receive(cast("BinaryIO", process.stdout)) for _ in "123")
    except OSError:  # it ended before it had read everything
        raise EOFError from None
    finally:
        timer.cancel()
    return verdict, first, content


# None stands for a process that is not started yet; the one used last is on top.
_PROCESSES: LifoQueue[Process | None] = LifoQueue()
for _ in range(PROCESSES):
    _PROCESSES.put(None)


@atexit.register
def _end_all() -> None:
    while not _PROCESSES.empty():
        _end(_PROCESSES.get())


def _end(process: Process | None) -> None:
    if process is not None:
        process.kill()
        process.communicate()


# ------------------------------------------------------------------ in the other process


def redraw(data: bytes) -> tuple[str, bytes]:
    """Return the media type and the bytes of an image, drawn again.

    Nothing but pixels survives: no script, metadata or trailing bytes. The size is read from the
    header before any pixel is unpacked.
    """
    from PIL import Image

    # Each scan of a JPEG is a pass over all pixels. This marker is nowhere within a scan.
    if data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > MOST_SCANS:
        raise Refused(f"A JPEG may have at most {MOST_SCANS} scans.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS or max(image.size) > LONGEST_SIDE:
                    raise Refused(
                        f"An image must have at most {MOST_PIXELS} pixels and sides of at most "
                        f"{LONGEST_SIDE}. Got {image.width} x {image.height}."
                    )
                image.load()
                return _encoded(image, image.format)
    except Refused:
        raise
    except Exception as error:  # given hostile bytes, decoders raise anything
        raise Refused(f"The image could not be read ({type(error).__name__}).") from None


def _encoded(image: Any, sent_as: str | None) -> tuple[str, bytes]:
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
    return f"image/{kind.lower()}", out.getvalue()


def _send(stream: BinaryIO, *parts: bytes) -> None:
    """Write parts, each preceded by its length."""
    for part in parts:
        stream.write(len(part).to_bytes(8, "big") + part)
    stream.flush()


def _receive(stream: BinaryIO) -> bytes:
    """Read one part; raise EOFError if there is none."""
    head = stream.read(8)
    size = int.from_bytes(head, "big")
    part = stream.read(size)
    if len(head) < 8 or len(part) < size:
        raise EOFError
    return part


def _main() -> None:
    """Answer images until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the desk, which then ends us
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        os.nice(10)  # whoever waits for the desk itself goes first
    with contextlib.suppress(EOFError):
        while True:
            data = _receive(sys.stdin.buffer)
            try:
                kind, content = redraw(data)
                _send(sys.stdout.buffer, b"+", kind.encode(), content)
            except Refused as error:
                _send(sys.stdout.buffer, b"-", str(error).encode(), b"")


if __name__ == "__main__":
    _main()
