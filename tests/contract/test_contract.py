"""The package answers as it did when the snapshots were written."""

from __future__ import annotations

from functools import cache

import pytest

from tests.contract.compare import SNAPSHOTS, differences, read_snapshot, tolerance_of
from tests.contract.parts import PARTS, entries_of

RECORDED = {part: read_snapshot(part) for part in PARTS}


@pytest.fixture(scope="session")
def entries(tmp_path_factory):
    """The entries of a part, made when asked for."""

    @cache
    def of(part):
        for module in PARTS[part]:
            pytest.importorskip(module)
        return entries_of(part, tmp_path_factory.mktemp(part))

    return of


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part, names in RECORDED.items() for name in names]
)
def test_answers_as_before(entries, part, name):
    made = entries(part)[name]()
    found = list(differences(RECORDED[part][name], made, tolerance_of(part, name)))
    assert not found, "\n".join([f"{len(found)} differences", *found[:20]])


@pytest.mark.parametrize("part", PARTS)
def test_every_entry_has_a_snapshot(entries, part):
    assert set(entries(part)) == set(RECORDED[part])


def test_a_changed_number_is_seen():
    recorded = {"a": [1.0, {"b": 0.1}]}
    assert not list(differences(recorded, {"a": [1.0, {"b": 0.1}]}))
    assert list(differences(recorded, {"a": [1.0, {"b": 0.1 + 2**-56}]}))
    assert list(differences(recorded, {"a": [1, {"b": 0.1}]}))
    assert list(differences(recorded, {"a": [1.0, {"b": 0.1}], "c": 0}))
    assert not list(differences([1e6, 0.0], [1e6, 1e-7], 1e-12))
    assert not list(differences("ce,2,0.1", "ce,2,0.10000000000000001", 1e-12))
    for line in ("ce,2,0.1000001", "gce,2,0.1", "ce,3,0.1", "ce,2,0.1,0.2"):
        assert list(differences("ce,2,0.1", line, 1e-12))


def test_snapshots_are_small():
    assert sum(path.stat().st_size for path in SNAPSHOTS.iterdir()) < 320_000
