import contextlib
import io
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


UNSAFE_NAMES = ["../evil", "data/../../evil", "/evil", "other/evil", "data\\..\\evil"]


@pytest.mark.parametrize("write", [write_tar, write_zip])
@pytest.mark.parametrize("name", UNSAFE_NAMES)
def test_names_that_lead_elsewhere_write_nothing_there(tmp_path, write, name):
    check_nothing_outside(tmp_path, write(tmp_path / "archive", "data/x", name))


@pytest.mark.parametrize(
    "entry",
    [
        tar_special("data/link", tarfile.SYMTYPE, "/etc/passwd"),
        tar_special("data/link", tarfile.SYMTYPE, "../../.."),
        tar_special("data/link", tarfile.LNKTYPE, "../archive"),
        tar_special("data/device", tarfile.CHRTYPE),
    ],
)
def test_links_that_lead_elsewhere_and_devices_are_refused(tmp_path, entry):
    check_refused(tmp_path, lambda path: write_tar(path, "data/x", entry))


def test_a_link_in_a_zip_becomes_a_file(tmp_path):
    check_nothing_outside(tmp_path, write_zip(tmp_path / "archive", zip_link("data/link")))
    link = tmp_path / "deep/inside/data/link"
    assert link.is_file()
    assert not link.is_symlink()


def check_nothing_outside(tmp_path, archive):
    folder = tmp_path / "deep" / "inside"
    folder.mkdir(parents=True)
    with contextlib.suppress(DataDamagedError):
        unpack(archive, folder / "data")
    assert {p.name for p in folder.iterdir()} <= {"data"}
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["inside"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive", "deep"]


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
