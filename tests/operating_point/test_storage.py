from __future__ import annotations

import hashlib
import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import expertload
from expertload import Cases
from expertload import operating_point as op
from expertload.exceptions import FileFormatError, ParameterError


def described():
    return op.choose(Cases.from_predictions(["a", "b", "b"], [0.2, 0.9, 0.8]), load_budget=0.4)


def certified():
    return op.certify(Cases.from_correctness(np.ones(100), range(100)), target_accuracy=0.9)


def hopeless():
    return op.certify(Cases.from_correctness(np.ones(10), range(10)), target_accuracy=0.9)


def grouped():
    return op.certify_groups(
        Cases.from_correctness(np.ones(100), range(100), groups=["x", "y"] * 50),
        target_accuracy=0.9,
    )


POINTS = [described, certified, hopeless, grouped]


@pytest.mark.parametrize("make", POINTS)
def test_what_is_saved_is_what_is_loaded(make, tmp_path):
    point = make()
    point.save(tmp_path / "policy.json", model_name="näme")
    again = op.load_operating_point(tmp_path / "policy.json")
    assert again == point
    assert type(again) is type(point)
    assert again.origin.model_name == "näme"
    assert again.origin.data_sha256 == point.origin.data_sha256
    assert again.origin.labels == point.origin.labels
    assert again.origin.library_version == expertload.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", again.origin.created)
    assert again.guarantee if not isinstance(again, op.OperatingPoint) else str(again)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "policy.json").read_bytes()


def test_a_loaded_point_decides_as_before(tmp_path):
    point = described()
    point.save(tmp_path / "p.json")
    again = op.load_operating_point(tmp_path / "p.json")
    for before, after in zip(point.decide([0.3, 0.95]), again.decide([0.3, 0.95]), strict=True):
        assert before.tolist() == after.tolist()


@given(st.floats(allow_nan=False))
def test_every_threshold_survives(tmp_path_factory, threshold):
    path = tmp_path_factory.mktemp("points") / "p.json"
    op.at_threshold(Cases.from_correctness([0, 1], [0.1, 0.9]), threshold=threshold).save(path)
    assert op.load_operating_point(path).threshold == threshold


def test_the_same_data_have_the_same_digest():
    first = op.choose(Cases.from_correctness([1, 0], [0.5, 0.25]), load_budget=0)
    same = op.choose(
        Cases.from_correctness(np.array([True, False]), np.float32([0.5, 0.25])), load_budget=0
    )
    other = op.choose(Cases.from_correctness([1, 0], [0.5, 0.26]), load_budget=0)
    weighted = op.choose(
        Cases.from_correctness([1, 0], [0.5, 0.25], sample_weight=[1, 2]), load_budget=0
    )
    assert first.origin.data_sha256 == same.origin.data_sha256
    assert len({p.origin.data_sha256 for p in (first, other, weighted)}) == 3


# ------------------------------------------------------------------ files to refuse


def sign(document):
    """Give a document the digest of its content, as a forger would."""
    content = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.parametrize("make", POINTS)
def test_any_changed_character_is_refused(make, tmp_path):
    """Each digit and letter of the file in turn; layout alone may change."""
    path = tmp_path / "p.json"
    make().save(path)
    text = path.read_text()
    for position in range(0, len(text), 7):
        letter = text[position]
        if letter.isalnum():
            path.write_text(
                text[:position] + ("1" if letter != "1" else "2") + text[position + 1 :]
            )
            with pytest.raises(FileFormatError):
                op.load_operating_point(path)
    path.write_text(json.dumps(json.loads(text)))
    op.load_operating_point(path)


@pytest.mark.parametrize("make", POINTS)
def test_a_cut_file_is_refused(make, tmp_path):
    path = tmp_path / "p.json"
    make().save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, 11):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match="not valid JSON"):
            op.load_operating_point(path)


def changed(make, path, **changes):
    make().save(path)
    document = json.loads(path.read_text())
    for key, value in changes.items():
        where = document
        *parents, last = key.split("__")
        for parent in parents:
            where = where[int(parent) if isinstance(where, list) else parent]
        last = int(last) if isinstance(where, list) else last
        if value is KeyError:
            del where[last]
        else:
            where[last] = value
    path.write_text(json.dumps(sign(document)))


@pytest.mark.parametrize(
    ("make", "changes", "match"),
    [
        (certified, {"kind": "calibrator"}, "its 'kind'"),
        (certified, {"schema_version": 0}, "from 1 to 6"),
        (certified, {"schema_version": 7}, "upgrade expertload"),
        (certified, {"schema_version": "1"}, "schema_version"),
        (certified, {"schema_version": True}, "schema_version"),
        (certified, {"origin": None}, "cannot be read"),
        (certified, {"origin__labels": 3}, "cannot be read"),
        (certified, {"origin__more": 1}, "fields it should"),
        (certified, {"origin__confidence_column": KeyError}, "fields it should"),
        (described, {"schema_version": 1}, "fields it should"),
        (certified, {"content": []}, "cannot be read"),
        (certified, {"content__type": "guess"}, "cannot be read"),
        (certified, {"content__threshold": KeyError}, "fields it should"),
        (certified, {"content__threshold": None}, "cannot be read"),
        (certified, {"content__passed": []}, "cannot be read"),
        (certified, {"content__passed__stretches": 3}, "cannot be read"),
        (certified, {"content__passed__stretches__0": {}}, "cannot be read"),
        (grouped, {"content__groups": [3]}, "cannot be read"),
        (grouped, {"content__groups": [{"group": "x", "point": 3}]}, "cannot be read"),
        (grouped, {"content__confidence_level": KeyError}, "cannot be read"),
    ],
)
def test_what_cannot_be_rebuilt_is_refused_even_if_signed(make, changes, match, tmp_path):
    changed(make, tmp_path / "p.json", **changes)
    with pytest.raises(FileFormatError, match=match):
        op.load_operating_point(tmp_path / "p.json")


@pytest.mark.parametrize("content", ["", "[]", "null", "{", '{"kind": NaN}', "[" * 10**5, "\xff"])
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "p.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(FileFormatError):
        op.load_operating_point(path)


def test_uncertified_points_keep_their_words(tmp_path):
    point = hopeless()
    point.save(tmp_path / "p.json")
    again = op.load_operating_point(tmp_path / "p.json")
    assert again.threshold == math.inf
    assert again.guarantee == point.guarantee
    low = op.certify(Cases.from_correctness(np.arange(100) % 2, np.ones(100)), target_accuracy=0.9)
    low.save(tmp_path / "p.json")
    assert "the accuracy is too low." in op.load_operating_point(tmp_path / "p.json").guarantee


# ------------------------------------------------------------------ what passed, and older files


def test_what_passed_is_saved_and_still_moves(tmp_path):
    rng = np.random.default_rng(0)
    confidence = rng.random(3000)
    correct = rng.random(3000) < 0.8 + 0.2 * confidence
    point = op.certify(Cases.from_correctness(correct, confidence), target_accuracy=0.9)
    assert len(point.passed) > 1000
    point.save(tmp_path / "p.json")
    again = op.load_operating_point(tmp_path / "p.json")
    assert len(again.passed) <= 101
    assert again.passed.ranges == point.passed.ranges
    for load in (0.3, 0.5, 0.8):
        before, after = point.at(expert_load=load), again.at(expert_load=load)
        assert after.threshold in point.passed
        assert after.expert_load == pytest.approx(before.expert_load, abs=0.02)
        same = op.at_threshold(
            Cases.from_correctness(correct, confidence), threshold=after.threshold
        )
        assert (after.n_accepted, after.n_errors) == (same.n_accepted, same.n_errors)
    assert again.origin.confidence_quantiles == point.origin.confidence_quantiles
    assert again.expert_load == point.expert_load


@given(st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.9]), min_size=1, max_size=40))
def test_quantiles_of_the_confidences(values):
    point = op.at_threshold(Cases.from_correctness([1] * len(values), values), threshold=0.5)
    ordered, n = sorted(values), len(values)
    expected = [ordered[max(math.ceil(Fraction(i * n, 100)) - 1, 0)] for i in range(101)]
    assert point.origin.confidence_quantiles == tuple(expected)


@pytest.mark.parametrize("make", POINTS)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_older_schemas_are_read(make, version, tmp_path):
    path = tmp_path / "p.json"
    point = make()
    point.save(path)
    document = json.loads(path.read_text())
    document["schema_version"] = version
    del document["origin"]["read_as"], document["origin"]["score"]
    del document["origin"]["group_column"]
    if version < 3:
        del document["origin"]["confidence_quantiles"]
    if version == 1:
        del document["origin"]["probability_columns"], document["origin"]["confidence_column"]
    content = document["content"]
    for part in [content] + [entry["point"] for entry in content.get("groups", [])]:
        if part["type"] == "certified" and version < 3:
            del part["clusters"], part["passed"]
            part["method"] = "fixed_sequence"
    path.write_text(json.dumps(sign(document)))
    again = op.load_operating_point(path)
    assert again.origin.read_as is None
    assert (again.origin.confidence_quantiles is None) == (version < 3)
    assert again.expert_load == point.expert_load
    if version < 3 and isinstance(again, op.CertifiedPoint) and again.is_certified:
        assert again.at(threshold=again.threshold) == again
        with pytest.raises(ParameterError, match="not certified"):
            again.at(threshold=again.threshold + 1e-3)
