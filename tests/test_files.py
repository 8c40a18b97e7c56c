from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import expertload
from expertload._files import write_atomically


def test_writes_text_and_bytes_over_what_was_there(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, "first, with ünicode")
    assert path.read_text(encoding="utf-8") == "first, with ünicode"
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_no_trace(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.processes
def test_a_full_disk_for_real(tmp_path):
    """A process that may write no more than 1 KiB a file fails, and the old file survives."""
    path = tmp_path / "file"
    write_atomically(path, "old")
    code = (
        "import resource, signal, sys\n"
        "from expertload._files import write_atomically\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
        "write_atomically(sys.argv[1], 'x' * 4096)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(expertload.__file__).parents[1])},
    )
    assert done.returncode != 0
    assert "OSError" in done.stderr
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
