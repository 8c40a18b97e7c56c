from __future__ import annotations

import subprocess
import sys

import pytest
from tests.lab.data.official_files import SHARED, write_cifar


@pytest.fixture(scope="session")
def real_data(tmp_path_factory):
    """The real data sets in their official layouts, unpacked once."""
    script = SHARED / "data" / "unpack.py"
    if not script.is_file():
        pytest.skip("the real data sets are not beside the repository")
    folder = tmp_path_factory.mktemp("real")
    subprocess.run([sys.executable, script, folder], check=True)
    return folder


@pytest.fixture
def cifar_folder(tmp_path):
    write_cifar(tmp_path)
    return tmp_path
