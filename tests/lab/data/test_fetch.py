"""Downloads from a server that truncates, corrupts, or falls silent."""

import hashlib
import io
import tarfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.lab.data.loopback import misbehaving_server

from expertload.exceptions import DataDamagedError, DownloadError
from expertload.lab.data import fetch_dataset, registry
from expertload.lab.data.fetching import fetch_files
from expertload.lab.data.files import Entry, RemoteFile

CONTENT = np.random.default_rng(0).bytes(1 << 18)
QUICK = {"retries": 0, "timeout": 5}


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
    return RemoteFile(**fields | changes)


def fetch(server, folder, **options):
    return fetch_files([remote(server)], folder, **QUICK | options)


def leftovers(folder):
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".lock"))


def test_a_good_download_is_checked_and_not_repeated(server, tmp_path):
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT
    fetch(server, tmp_path)
    assert server.requests == 1
    assert leftovers(tmp_path) == ["file.bin"]


def test_sha256_is_understood(server, tmp_path):
    checksum = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
    (path,) = fetch_files([remote(server, checksum=checksum)], tmp_path, **QUICK)
    assert path.read_bytes() == CONTENT


def test_a_truncated_answer_is_asked_for_again(server, tmp_path):
    server.kind, server.faults = "truncate", 1
    (path,) = fetch(server, tmp_path, retries=1)
    assert path.read_bytes() == CONTENT
    assert server.requests == 2


def test_patience_ends(server, tmp_path):
    server.kind, server.faults = "truncate", 99
    with pytest.raises(DownloadError, match="run the same command again"):
        fetch(server, tmp_path, retries=1)
    assert server.requests == 2
    assert leftovers(tmp_path) == []


def test_a_missing_file_is_a_sentence(server, tmp_path):
    server.status = 404
    with pytest.raises(DownloadError, match=r"404.*by hand"):
        fetch(server, tmp_path)


def test_a_server_that_is_not_there_is_a_sentence(server, tmp_path):
    file = remote(server, url="http://127.0.0.1:9/none")
    with pytest.raises(DownloadError, match="Could not download"):
        fetch_files([file], tmp_path, **QUICK)


def test_a_server_that_falls_silent_is_given_up(server, tmp_path):
    server.seconds_a_block = 1.5
    with pytest.raises(DownloadError, match="timed out"):
        fetch(server, tmp_path, timeout=0.2)


def test_corrupt_bytes_are_thrown_away(server, tmp_path):
    server.kind, server.faults = "corrupt", 1
    with pytest.raises(DownloadError, match="hash"):
        fetch(server, tmp_path)
    assert leftovers(tmp_path) == []
    (path,) = fetch(server, tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_truncated_answer_without_a_length_is_noticed(server, tmp_path):
    server.kind, server.faults, server.announces_length = "truncate", 1, False
    with pytest.raises(DownloadError, match="hash"):
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


def test_a_folder_that_cannot_be_made_is_a_sentence(server, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DownloadError, match="EXPERTLOAD_DATA"):
        fetch(server, tmp_path / "taken")


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
    assert server.requests == 1


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
        assert server.requests == 1
        assert archive_file(server).is_present(tmp_path)


def test_an_archive_at_hand_is_unpacked_without_the_network(tmp_path):
    content = tar_of(a=b"1", b=b"2")
    with misbehaving_server(content) as server:
        (tmp_path / "data.tar.gz").write_bytes(content)
        fetch_files([archive_file(server)], tmp_path, **QUICK)
        assert server.requests == 0


def test_a_folder_that_is_not_whole_is_not_overwritten(server, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_bytes(b"mine")
    with pytest.raises(DataDamagedError, match=r"lacks b.*move it away"):
        fetch_files([archive_file(server)], tmp_path, **QUICK)
    assert (tmp_path / "data/a").read_bytes() == b"mine"


def test_fetching_by_name(server, tmp_path, monkeypatch):
    files = [remote(server)]
    entry = Entry(name="example", summary="an example", reader="npz", files=files)
    monkeypatch.setitem(registry._ENTRIES, "example", entry)
    assert fetch_dataset("example", data_dir=tmp_path) == tmp_path
    assert (tmp_path / "sub/file.bin").read_bytes() == CONTENT
