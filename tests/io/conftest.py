from __future__ import annotations

import warnings

import pytest

from tests.io.backends import EVERY, make_frame, start_spark
from tests.postgres import cluster  # noqa: F401 - a fixture


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.chdir(tmp_path_factory.mktemp("spark"))  # Java keeps its logs where it was started
        warnings.simplefilter("ignore")  # about versions of other packages
        session = start_spark()
    yield session
    session.stop()


@pytest.fixture(params=EVERY)
def backend(request):
    return request.param


@pytest.fixture
def frame_of(request, backend, tmp_path):
    """A function that makes a frame of the current engine."""
    session = request.getfixturevalue("spark") if backend == "spark" else None
    made = iter(range(100))

    def make(columns):
        folder = tmp_path / str(next(made))
        folder.mkdir()
        return make_frame(backend, columns, session, folder)

    return make
