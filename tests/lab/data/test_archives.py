import io
import os
import stat
import tarfile
import zipfile

import pytest

from expertload.exceptions import DataDamagedError
from expertload.lab.data.fetching import unpack

CONTENT = b"hello" * 2000


def write_tar(path, *entries):
    with tarfile.open(path, "w:gz") as archive:
        for entry in entries:
            if isinstance(entry, str):
                entry = tarfile.TarInfo(entry)
                entry.size = len(CONTENT)
            archive.addfile(entry, io.BytesIO(CONTENT) if entry.isfile() else None)
    return path


def write_zip(path, *entries):
    with zipfile.ZipFile(path, "w") as archive:
        for entry in entries:
            archive.writestr(entry, CONTENT)
    return path


def tar_special(name, kind, target=""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def zip_link(name):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_a_good_archive(tmp_path, write):
    (tmp_path / "out").mkdir()
    unpack(write(tmp_path / "a", "data/x", "data/deep/y"), tmp_path / "out" / "data")
    assert (tmp_path / "out/data/deep/y").read_bytes() == CONTENT
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["data"]


def test_a_tar_where_python_has_no_filters(tmp_path, monkeypatch):
    """As before 3.11.4: what others may write and whose it is are not taken over."""
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    entry = tarfile.TarInfo("data/x")
    entry.size, entry.mode, entry.uid, entry.uname = len(CONTENT), 0o4777, 4242, "nobody"
    unpack(write_tar(tmp_path / "a", entry), tmp_path / "data")
    found = (tmp_path / "data/x").stat()
    assert (tmp_path / "data/x").read_bytes() == CONTENT
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o755, os.getuid())


UNSAFE_NAMES = ["../evil", "data/../../evil", "/evil", "other/evil", "data\\..\\evil"]


@pytest.mark.parametrize("write", [write_tar, write_zip])
@pytest.mark.parametrize("name", UNSAFE_NAMES)
def test_names_that_lead_elsewhere_are_refused(tmp_path, write, name):
    check_refused(tmp_path, lambda path: write(path, "data/x", name))


@pytest.mark.parametrize(
    "entry",
    [
        tar_special("data/link", tarfile.SYMTYPE, "/etc/passwd"),
        tar_special("data/link", tarfile.SYMTYPE, "../.."),
        tar_special("data/link", tarfile.LNKTYPE, "data/x"),
        tar_special("data/pipe", tarfile.FIFOTYPE),
        tar_special("data/device", tarfile.CHRTYPE),
    ],
)
def test_links_and_devices_in_tars_are_refused(tmp_path, entry):
    check_refused(tmp_path, lambda path: write_tar(path, "data/x", entry))


def test_links_in_zips_are_refused(tmp_path):
    check_refused(tmp_path, lambda path: write_zip(path, "data/x", zip_link("data/link")))


@pytest.mark.parametrize("write", [write_tar, write_zip])
@pytest.mark.parametrize("keep", [0, 40, -30])
def test_damaged_archives_are_refused(tmp_path, write, keep):
    def damage(path):
        write(path, "data/x", "data/y")
        path.write_bytes(path.read_bytes()[:keep])

    check_refused(tmp_path, damage)


def test_a_zip_with_altered_bytes_is_refused(tmp_path):
    def alter(path):
        write_zip(path, "data/x")
        path.write_bytes(path.read_bytes().replace(b"hello", b"jello", 1))

    check_refused(tmp_path, alter)


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_an_archive_without_the_folder_is_refused(tmp_path, write):
    check_refused(tmp_path, lambda path: write(path))


def check_refused(tmp_path, write):
    folder = tmp_path / "deep" / "inside"
    folder.mkdir(parents=True)
    write(tmp_path / "archive")
    with pytest.raises(DataDamagedError):
        unpack(tmp_path / "archive", folder / "data")
    assert list(folder.iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive", "deep"]


def test_what_a_killed_process_left_is_cleared(tmp_path):
    leftover = tmp_path / ".data.unpacking" / "data"
    leftover.mkdir(parents=True)
    (leftover / "half").write_text("")
    unpack(write_zip(tmp_path / "a.zip", "data/x"), tmp_path / "data")
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["x"]
    assert not leftover.exists()
