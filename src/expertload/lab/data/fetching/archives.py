"""Unpacks untrusted archives safely.

Nothing is written outside the folder the archive is expected to hold, links and devices are
refused, and the folder appears under its name only when it is whole.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from expertload.exceptions import DataDamagedError
from expertload.lab.data.catalogue import damaged

__all__ = ["unpack"]

_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    FileNotFoundError,  # the folder is not in the archive
)


def unpack(archive: Path, target: Path) -> None:
    """Unpack the one folder that an archive holds.

    Parameters
    ----------
    archive : Path
        A ``.zip``, or a ``.tar`` with or without compression.
    target : Path
        Where the folder goes; its last part is the folder's name inside the archive. It must
        not exist yet.

    Raises
    ------
    DataDamagedError
        If the archive is damaged or would write anywhere else; then nothing is left behind.
    """
    staging = target.with_name(f".{target.name}.unpacking")
    shutil.rmtree(staging, ignore_errors=True)  # left over from a killed process
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, staging, target.name)
        else:
            _unpack_tar(archive, staging, target.name)
        (staging / target.name).rename(target)
    except _DAMAGE as error:
        raise damaged(archive, f"cannot be unpacked ({error})") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _unpack_zip(archive: Path, staging: Path, top: str) -> None:
    with zipfile.ZipFile(archive) as file:
        for entry in file.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _unsafe(archive, entry.filename, "a link or a device")
            _check_name(archive, entry.filename, top)
        file.extractall(staging)


def _unpack_tar(archive: Path, staging: Path, top: str) -> None:
    with tarfile.open(archive) as file:
        members = file.getmembers()
        for member in members:
            if not (member.isfile() or member.isdir()):
                raise _unsafe(archive, member.name, "a link or a device")
            _check_name(archive, member.name, top)
        if hasattr(tarfile, "data_filter"):
            file.extractall(staging, members=members, filter="data")
        else:  # Python before 3.11.4 has no filter; the same entries were refused above
            for member in members:
                member.mode &= 0o755
                member.uid, member.gid = os.getuid(), os.getgid()
                member.uname = member.gname = ""
            file.extractall(staging, members=members)


def _check_name(archive: Path, name: str, top: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise _unsafe(archive, name, "a path that leads out of its folder")
    if path.parts and path.parts[0] != top:
        raise _unsafe(archive, name, f"something outside the folder {top}")


def _unsafe(archive: Path, name: str, problem: str) -> DataDamagedError:
    return damaged(archive, f"holds {problem} ({name!r}) and was not unpacked")
