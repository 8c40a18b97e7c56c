"""Tables on disk: read back as they were, and nothing else is read."""

from __future__ import annotations

import numpy as np
import pytest

from expertload.exceptions import FileFormatError
from expertload.io import FrameTally


@pytest.fixture
def table():
    confidence = np.array([0.25, 0.5, 0.75])
    rows = (confidence, np.array([2.0, 1.0, 3.0]), np.array([1.0, 0.0, 3.0]), confidence)
    return FrameTally.from_rows(rows, None)


@pytest.mark.parametrize("bits", [None, 1])
def test_tables_come_back_as_they_were(table, bits, tmp_path):
    table = table if bits is None else table.rounded(bits)
    table.save(tmp_path / "part.npz")
    back = FrameTally.load(tmp_path / "part.npz")
    assert back.bits == bits
    for name in ("confidence", "weight", "correct", "top"):
        np.testing.assert_array_equal(getattr(back, name), getattr(table, name))
    assert (back + table).n_cases == 12


def stored(path, **changes):
    """Write a file that is right but for some changes."""
    content = {
        "format": np.array("expertload.FrameTally"),
        "header": np.array([1, -1]),
        "confidence": np.array([0.25, 0.5]),
        "weight": np.array([1.0, 2.0]),
        "correct": np.array([0.0, 2.0]),
        "top": np.array([0.25, 0.5]),
    }
    np.savez(path, **(content | changes))
    return path


def test_the_format_of_the_helper_is_right(tmp_path):
    assert FrameTally.load(stored(tmp_path / "t.npz")).n_cases == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"format": np.array("another")},
        {"header": np.array([2, -1])},
        {"header": np.array([1.0, -1.0])},
        {"weight": np.array([1.0, -2.0])},
        {"weight": np.array([1.0, np.nan])},
        {"weight": np.array([1.0])},
        {"weight": np.array([1, 2])},
        {"correct": np.array([0.0, 3.0])},
        {"confidence": np.array([0.5, 0.25])},
        {"top": np.array([0.2, 0.5])},
        {"top": np.array([0.3, 0.6])},
        {"header": np.array([1, 1])},
        {"confidence": np.array([object(), 1])},
    ],
    ids=lambda c: next(iter(c)),
)
def test_other_content_is_refused(changes, tmp_path):
    with pytest.raises(FileFormatError, match=r"'.*t.npz' must be a table.*Hint"):
        FrameTally.load(stored(tmp_path / "t.npz", **changes))


@pytest.mark.parametrize("content", [b"", b"confidence,correct\n", b"PK\x03\x04 cut"])
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "t.npz"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="Hint"):
        FrameTally.load(path)
    np.save(tmp_path / "plain.npy", np.zeros(3))
    with pytest.raises(FileFormatError, match="Hint"):
        FrameTally.load(tmp_path / "plain.npy")


def test_a_failed_write_leaves_the_last_table(table, tmp_path, monkeypatch):
    path = tmp_path / "part.npz"
    table.save(path)

    def full(*_args, **_kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space"):
        (table + table).save(path)
    assert FrameTally.load(path).n_cases == 6
    assert [p.name for p in tmp_path.iterdir()] == ["part.npz"]
