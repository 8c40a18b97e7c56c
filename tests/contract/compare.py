"""Snapshots: how they are written, normalised and compared."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

SNAPSHOTS = Path(__file__).parent / "snapshots"
RELAXED = float(os.environ.get("EXPERTLOAD_CONTRACT_TOLERANCE", "0"))

# Relative tolerances by part and entry. In a list, the tolerance is relative to its largest number.
# Processors with other vector instructions add in another order and differ in the last digits; what
# an optimiser or a learned projection finds depends on how it is written.
LAST_DIGITS = 1e-12
TOLERANCE = {
    "numbers/calibrator platt*": 1e-9,
    "numbers/calibrator temperature*": 1e-9,
    "numbers/calibrator vector_scaling*": 1e-9,
    "numbers/calibrator matrix_scaling*": 1e-9,
    "numbers/calibrator kcal*": 1e-9,
    "numbers/confidence score temperature": 1e-9,
    "numbers/confidence score correctness": 1e-9,
    "stored/written calibrator platt": 1e-9,
    "stored/written calibrator temperature*": 1e-9,
    "stored/written calibrator vector_scaling": 1e-9,
    "stored/written calibrator matrix_scaling": 1e-9,
    "stored/written calibrator kcal": 1e-9,
    "stored/written calibrator correctness": 1e-9,
    "stored/written policy chosen confidence": 1e-9,
    "commands/evaluate choose confidence*": 1e-9,
    "commands/lab evaluate*": 1e-9,
    "commands/lab table": 1e-9,
}

# Sentences for people, and what differs from run to run.
PROSE = {"guarantee", "conditions", "message", "hint", "why", "detail", "summary", "advice"}
VARIES = {"created", "library_version", "sha256", "expertload", "n_iter_", "versions"}


def normalised(value, names=PROSE | VARIES):
    """Replace the values of these names by a mark; None stays None."""
    if isinstance(value, dict):
        return {
            key: "*" if key in names and each is not None else normalised(each, names)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [normalised(each, names) for each in value]
    return value


def plain(value):
    """Turn results into JSON: arrays into lists, named tuples and dataclasses into objects."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


# ------------------------------------------------------------------ comparing

NUMBER = re.compile(r"\d+\.\d+(?:e-?\d+)?")


def tolerance_of(part, name):
    found = [each for pattern, each in TOLERANCE.items() if fnmatch(f"{part}/{name}", pattern)]
    return max([RELAXED, LAST_DIGITS, *found])


def differences(expected, got, tolerance=0.0, *, where="", scale=0.0):
    """Yield a line for each place where two JSON values differ."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in [*expected, *(key for key in got if key not in expected)]:
            if key == "data_sha256" and tolerance > LAST_DIGITS:
                continue  # the digest of numbers that an optimiser found
            if key not in got or key not in expected:
                yield f"{where}/{key}: {'gone' if key in expected else 'new'}"
            else:
                yield from differences(
                    expected[key], got[key], tolerance, where=f"{where}/{key}", scale=scale
                )
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            yield f"{where}: {len(expected)} items became {len(got)}"
        scale = max(scale, _largest(expected))
        for i, pair in enumerate(zip(expected, got, strict=False)):
            yield from differences(*pair, tolerance, where=f"{where}/{i}", scale=scale)
    elif not _same(expected, got, tolerance, scale):
        yield f"{where}: {expected!r} became {got!r}"


def _largest(values):
    """Return the largest finite number in nested lists."""
    found = [_largest(each) if isinstance(each, list) else each for each in values]
    numbers = [abs(each) for each in found if isinstance(each, float) and math.isfinite(each)]
    return max(numbers, default=0.0)


def _words_and_numbers(line):
    words = NUMBER.split(line)
    return words, [float(found) for found in NUMBER.findall(line)]


def _same(expected, got, tolerance, scale):
    if type(expected) is not type(got):
        return False
    if isinstance(expected, str):  # a line of CSV: its words are equal, its numbers nearly
        (words, numbers), (now, values) = (_words_and_numbers(each) for each in (expected, got))
        pairs = zip(numbers, values, strict=False)
        return words == now and all(_same(*pair, tolerance, scale) for pair in pairs)
    if not isinstance(expected, float):
        return expected == got
    if expected == got or (math.isnan(expected) and math.isnan(got)):
        return True
    return math.isclose(expected, got, rel_tol=tolerance, abs_tol=tolerance * scale)


# ------------------------------------------------------------------ files


def read_snapshot(part):
    path = SNAPSHOTS / f"{part}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def write_snapshot(part, entries):
    text = layout(entries)
    (SNAPSHOTS / f"{part}.json").write_text(text + "\n", "utf-8")


def layout(value, indent=0, depth=4):
    """Return JSON with one line per value that is short or lies deep."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if len(line) + indent <= 100 or depth == 0 or not isinstance(value, dict | list):
        return line
    pad = " " * (indent + 1)
    if isinstance(value, list):
        items = [layout(each, indent + 1, depth - 1) for each in value]
        return "[\n" + ",\n".join(pad + item for item in items) + f"\n{' ' * indent}]"
    items = [
        f"{json.dumps(key, ensure_ascii=False)}:{layout(each, indent + 1, depth - 1)}"
        for key, each in value.items()
    ]
    return "{\n" + ",\n".join(pad + item for item in items) + f"\n{' ' * indent}}}"
