from __future__ import annotations

import functools
import gc
import os
import shutil
from collections import Counter
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import typer.testing
from hypothesis import HealthCheck, settings

# The same examples everywhere and every time: a fifth of them in `make fast`
# (HYPOTHESIS_PROFILE=fast), other and more ones with HYPOTHESIS_PROFILE=thorough.
settings.register_profile(
    "default",
    max_examples=100,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fast", settings.get_profile("default"), max_examples=20)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Some virtual machines report matrix instructions (AMX) but do not run them, and bfloat16 ends the
# process. So torch does without them, here and in the processes that tests start.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Fixtures, and values of parameters, that start something slow, and the marker that keeps it out of
# `make fast`.
SLOW = {
    "browser": "browser",
    "spark": "spark",
    "cluster": "postgres",
    "postgresql": "postgres",
    "trained": "training",
    "trained_run": "training",
}


# What a test of a marker takes, roughly, to say which files take long.
SECONDS = {
    "slow": 0.5,
    "simulation": 1.5,
    "processes": 3,
    "training": 1,
    "browser": 2,
    "spark": 3,
    "postgres": 0.3,
}
SECONDS_OF_A_PLAIN_TEST = 0.03
WAITING = {"processes", "browser", "spark", "postgres"}

# Programs that a test does not control alone: a busy machine may fail them once without a fault.
SHARED_WITH_THE_MACHINE = ("browser", "processes")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays: no search for garbage goes through it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure():
    gc.unfreeze()  # compiled modules look at the end whether all was given back


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Examples are those of the sources: tests have none to be searched for."""
    return [found for found in (yield) if type(found).__name__ != "DoctestModule"]


def unit_of(path: Path) -> Path:
    """What one worker runs as a whole: a file, or the folder that shares a Spark session."""
    return path.parent if path.parent.name == "frames" else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give a worker whole units, so that no two of them set up the same things."""
    from xdist.scheduler import LoadScopeScheduling

    class Units(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return str(unit_of(Path(nodeid.split("::")[0])))

    config.option.loadscopereorder = False  # the order is that of `spread_out`
    return Units(config, log)


def spread_out(items):
    """Sort units: the longest first, and those that wait among those that compute.

    A long unit that began last would keep the other workers waiting, and so would all those at once
    that wait for a server or another process.
    """
    seconds, waits = Counter(), set()
    for item in items:
        marks = {mark.name for mark in item.iter_markers()} & SECONDS.keys()
        unit = unit_of(item.path)
        seconds[unit] += max((SECONDS[mark] for mark in marks), default=SECONDS_OF_A_PLAIN_TEST)
        if marks & WAITING:
            waits.add(unit)
    place = {}
    for kind in (waits, seconds.keys() - waits):
        ordered = sorted(kind, key=lambda unit: (-seconds[unit], str(unit)))
        ends = accumulate(seconds[unit] for unit in ordered)
        total = sum(seconds[unit] for unit in ordered)  # a set's order would round differently
        place |= {unit: end / total for unit, end in zip(ordered, ends, strict=True)}
    items.sort(key=lambda item: place[unit_of(item.path)])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        words = {value for value in parameters if isinstance(value, str)}
        for name in {*getattr(item, "fixturenames", ()), *words} & SLOW.keys():
            item.add_marker(SLOW[name])
        if os.environ.get("CI") and any(map(item.get_closest_marker, SHARED_WITH_THE_MACHINE)):
            item.add_marker(pytest.mark.flaky(reruns=1))
    if hasattr(config, "workerinput"):  # of xdist
        spread_out(items)


@pytest.fixture(scope="session", autouse=True)
def one_tree_of_commands():
    """Typer builds the tree of commands, a tenth of a second's work, for every command run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.main.get_command))
        yield


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("EXPERTLOAD_CHROMIUM") or next(
        filter(None, map(shutil.which, names)), None
    )


@pytest.fixture(scope="session")
def browser():
    """A real browser, where there is one."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = chromium()
    if executable is None:
        pytest.skip("no chromium on this machine (EXPERTLOAD_CHROMIUM names one)")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=flags)
        yield launched
        launched.close()


DATA = Path(__file__).parent / "data"
SHARED = Path(os.environ.get("EXPERTLOAD_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared():
    """A folder of larger data, which lies beside some clones."""
    return SHARED


class Golden(dict):
    """Values of the paper's own code, by `case/quantity`."""

    @property
    def ids(self):
        return sorted({key.split("/")[0] for key in self})


# The batches of up to 128 cases are part of the project; larger ones lie beside some clones.
GOLDEN = [DATA / "authors_values.npz", SHARED / "golden" / "authors_reference.npz"]


@pytest.fixture(
    scope="session",
    params=[path for path in GOLDEN if path == GOLDEN[0] or path.exists()],
    ids=lambda path: path.stem,
)
def golden(request):
    with np.load(request.param, allow_pickle=False) as archive:
        return Golden(archive)
