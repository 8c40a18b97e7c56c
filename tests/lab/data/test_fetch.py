"""Downloads against a server that truncates, corrupts, is slow, or ignores what it is asked."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.lab.data.loopback import misbehaving_server
from tests.lab.data.official_files import REPOSITORY

from expertload.exceptions import DataDamagedError, DownloadError
from expertload.lab.data import fetch_dataset, fetching, registry
from expertload.lab.data.fetching import fetch_files
from expertload.lab.data.files import RemoteFile
from expertload.lab.data.registry import Entry

BLOCK = 1 << 14  # what is sure to be kept when a connection breaks
CONTENT = np.random.default_rng(0).bytes(16 * BLOCK)
QUICK = {"pause": 0.01, "timeout": 5}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server():
    with misbehaving_server(CONTENT) as running:
        yield running


def remote(server, **changes):
    digest = hashlib.md5(server.content, usedforsecurity=False).hexdigest()
    fields = {"path": "sub/file.bin", "url": server.url, "checksum": f"md5:{digest}"}
    fields["at_most"] = len(server.content)
    return RemoteFile(**fields | changes)


def fetch(server, folder, **options):
    return fetch_files([remote(server)], folder, **QUICK | options)


def leftovers(folder):
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".lock"))


def test_a_good_download_is_checked_and_not_repeated(server, tmp_path):
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT
    fetch(server, tmp_path)
    assert server.ranges == [None]
    assert leftovers(tmp_path) == ["file.bin"]


def test_sha256_is_understood(server, tmp_path):
    checksum = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
    (path,) = fetch_files([remote(server, checksum=checksum)], tmp_path, **QUICK)
    assert path.read_bytes() == CONTENT


def test_a_truncated_answer_is_resumed(server, tmp_path):
    server.kind, server.faults = "truncate", 2
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={8 * BLOCK}-", f"bytes={12 * BLOCK}-"]


def test_a_server_that_ignores_ranges_is_begun_anew(server, tmp_path):
    server.kind, server.faults, server.honours_range = "truncate", 1, False
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={8 * BLOCK}-"]


def test_a_server_that_sends_another_range_is_begun_anew(server, tmp_path):
    prepare_part(tmp_path, CONTENT[:50_000])
    server.kind, server.faults = "wrong range", 1
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.ranges == ["bytes=50000-", None]


@pytest.mark.slow
def test_a_busy_server_is_waited_for(server, tmp_path):
    server.kind, server.faults, server.retry_after = "unavailable", 1, "1"
    started = time.monotonic()
    fetch(server, tmp_path)
    assert time.monotonic() - started >= 1


def test_patience_ends_and_what_arrived_is_kept(server, tmp_path):
    server.kind, server.faults = "truncate", 99
    with pytest.raises(DownloadError, match=r"in 3 attempts.*continues where this stopped"):
        fetch(server, tmp_path, attempts=3)
    assert len(server.ranges) == 3
    assert (tmp_path / "sub/file.bin.part").stat().st_size == 14 * BLOCK
    server.faults = 0
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.ranges[-1] == f"bytes={14 * BLOCK}-"


def test_a_missing_file_is_not_asked_for_twice(server, tmp_path):
    server.status = 404
    with pytest.raises(DownloadError, match="answered 404"):
        fetch(server, tmp_path)
    assert len(server.ranges) == 1


def test_a_server_that_is_not_there_is_a_sentence(server, tmp_path):
    file = remote(server, url="http://127.0.0.1:9/none")
    with pytest.raises(DownloadError, match="Could not download"):
        fetch_files([file], tmp_path, attempts=2, **QUICK)


def test_a_server_that_falls_silent_is_given_up(server, tmp_path):
    server.seconds_a_block = 1.5
    with pytest.raises(DownloadError, match="timed out"):
        fetch(server, tmp_path, timeout=0.2, attempts=1)


@pytest.mark.slow
def test_a_slow_server_is_borne(server, tmp_path):
    server.seconds_a_block = 0.01
    (path,) = fetch(server, tmp_path, timeout=10)
    assert path.read_bytes() == CONTENT


def test_corrupt_bytes_are_thrown_away(server, tmp_path):
    server.kind, server.faults = "corrupt", 1
    with pytest.raises(DownloadError, match="checksum"):
        fetch(server, tmp_path)
    assert leftovers(tmp_path) == []
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_truncated_answer_without_a_length_is_noticed(server, tmp_path):
    server.kind, server.faults, server.announces_length = "truncate", 1, False
    with pytest.raises(DownloadError, match="checksum"):
        fetch(server, tmp_path)
    assert leftovers(tmp_path) == []


def test_a_damaged_download_never_replaces_what_is_there(server, tmp_path):
    path = tmp_path / "sub/file.bin"
    path.parent.mkdir()
    path.write_bytes(b"an older version")
    server.kind, server.faults = "corrupt", 1
    with pytest.raises(DownloadError):
        fetch(server, tmp_path)
    assert path.read_bytes() == b"an older version"


def prepare_part(folder, content):
    (folder / "sub").mkdir()
    (folder / "sub/file.bin.part").write_bytes(content)


@pytest.mark.parametrize("stale", [b"x" * 500, CONTENT + b"too long", b"y" * len(CONTENT)])
def test_a_part_of_another_version_is_dropped(server, tmp_path, stale):
    prepare_part(tmp_path, stale)
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(stale)}-", None]


def test_a_part_that_is_complete_only_needs_its_check(server, tmp_path):
    prepare_part(tmp_path, CONTENT)
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT


@pytest.mark.processes
def test_a_killed_download_goes_on_where_it_stopped(server, tmp_path):
    file = remote(server)
    code = (
        "import sys; from pathlib import Path\n"
        "from expertload.lab.data.files import RemoteFile\n"
        "from expertload.lab.data.fetching import fetch_files\n"
        "fetch_files([RemoteFile(*sys.argv[2:5], at_most=10**6)], Path(sys.argv[1]))"
    )
    arguments = [tmp_path, file.path, file.url, file.checksum]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src")}
    server.seconds_a_block = 0.3  # the kill comes before the end, even on a busy machine
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment)
    part = tmp_path / "sub/file.bin.part"
    while not (part.exists() and part.stat().st_size):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    arrived = part.stat().st_size
    assert 0 < arrived < len(CONTENT)
    server.seconds_a_block = 0
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={arrived}-"]


def test_a_folder_that_cannot_be_made_is_a_sentence(server, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DownloadError, match="EXPERTLOAD_DATA"):
        fetch(server, tmp_path / "taken")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_a_full_disk_is_a_sentence(server, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file.bin.part").symlink_to("/dev/full")
    with pytest.raises(DownloadError, match="free some space"):
        fetch(server, tmp_path)


@pytest.mark.parametrize("url", ["nowhere", "ftp://127.0.0.1/file"])
def test_an_address_that_is_none_is_a_sentence(server, tmp_path, url):
    with pytest.raises(DownloadError, match="Could not download"):
        fetch_files([remote(server, url=url)], tmp_path, **QUICK)


def test_two_that_start_together_download_once(server, tmp_path):
    server.seconds_a_block = 0.002
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(lambda _: fetch(server, tmp_path), range(2)))
    assert paths[0] == paths[1]
    assert paths[0][0].read_bytes() == CONTENT
    assert server.ranges == [None]


def test_the_bar_counts_what_was_there_before(server, tmp_path, monkeypatch):

    seen = []

    class Bar:
        def __init__(self, **options):
            seen.append(options)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, n):
            seen[-1]["initial"] += n

    monkeypatch.setattr(fetching, "tqdm", Bar)
    prepare_part(tmp_path, CONTENT[:50_000])
    fetch(server, tmp_path, progress=True)
    assert (seen[0]["total"], seen[0]["initial"], seen[0]["disable"]) == (
        16 * BLOCK,
        16 * BLOCK,
        None,
    )


# ------------------------------------------------------------------------------ archives


def tar_of(**files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"data/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def archive_file(server):
    return remote(server, path="data.tar.gz", unpacks_to="data", holds=("a", "b"))


def test_an_archive_is_fetched_unpacked_and_left_alone(tmp_path):
    with misbehaving_server(tar_of(a=b"1", b=b"2")) as server:
        for _ in range(2):
            (target,) = fetch_files([archive_file(server)], tmp_path, **QUICK)
        assert (target / "b").read_bytes() == b"2"
        assert len(server.ranges) == 1
        assert archive_file(server).is_present(tmp_path)


def test_an_archive_at_hand_is_unpacked_without_the_network(tmp_path):
    content = tar_of(a=b"1", b=b"2")
    with misbehaving_server(content) as server:
        (tmp_path / "data.tar.gz").write_bytes(content)
        fetch_files([archive_file(server)], tmp_path, **QUICK)
        assert server.ranges == []


def test_a_folder_that_is_not_whole_is_not_overwritten(server, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_bytes(b"mine")
    with pytest.raises(DataDamagedError, match=r"lacks b.*move it away"):
        fetch_files([archive_file(server)], tmp_path, **QUICK)
    assert (tmp_path / "data/a").read_bytes() == b"mine"


def test_fetching_by_name(server, tmp_path, monkeypatch):
    entry = Entry("example", "an example", None, (remote(server),))
    monkeypatch.setitem(registry._ENTRIES, "example", entry)
    assert fetch_dataset("example", data_dir=tmp_path) == tmp_path
    assert (tmp_path / "sub/file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("announced", [True, False])
def test_a_download_stops_at_the_size_that_the_file_has(server, tmp_path, announced):
    """A server that never stops, or sends another file, does not fill the disk."""
    server.announces_length = announced
    server.seconds_a_block = 0.01
    file = remote(server, at_most=2 * BLOCK)
    with pytest.raises(DownloadError, match=f"sends more than {2 * BLOCK:,} bytes"):
        fetch_files([file], tmp_path, **QUICK)
    assert leftovers(tmp_path) == []
    assert len(server.ranges) == 1  # patience would not mend it
