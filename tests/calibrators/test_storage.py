"""Saving and loading: exact to the bit, whole or not at all, and nothing doubtful let in."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from tests.calibrators.synthetic import overconfident

import expertload
from expertload import exceptions
from expertload.calibrators import (
    CALIBRATORS,
    KCal,
    TemperatureScaling,
    load_calibrator,
    make_calibrator,
)

OPTIONS = {"kcal": {"bandwidth": 1.5, "projection": "pca", "n_components": 2}}
EVERY = tuple(CALIBRATORS)


@pytest.fixture(scope="module")
def fitted():
    logits, target = overconfident(120, 3, seed=1)
    return {
        name: make_calibrator(name, **OPTIONS.get(name, {})).fit(logits, target) for name in EVERY
    }


def write(path, document):
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("name", EVERY)
class TestRoundTrip:
    def test_to_the_bit(self, name, fitted, tmp_path):
        new = overconfident(50, 3, seed=2)[0]
        path = tmp_path / "calibrator.json"
        fitted[name].save(path)
        loaded = load_calibrator(path)
        assert type(loaded) is CALIBRATORS[name]
        assert loaded == fitted[name]
        assert repr(loaded) == repr(fitted[name])
        assert loaded.transform(new).tobytes() == fitted[name].transform(new).tobytes()
        loaded.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_bytes() == path.read_bytes()

    def test_a_class_without_cases(self, name, tmp_path):
        logits, target = overconfident(90, 3, seed=3)
        kept = target != 0
        calibrator = make_calibrator(name, **OPTIONS.get(name, {}))
        calibrator.fit(logits[kept], target[kept], labels=[0, 1, 2]).save(tmp_path / "c.json")
        assert load_calibrator(tmp_path / "c.json") == calibrator

    def test_the_header(self, name, fitted):
        document = fitted[name].to_dict()
        assert document["kind"] == "expertload calibrator"
        assert document["schema_version"] == 1
        assert document["library_version"] == expertload.__version__
        assert document["method"] == name
        assert document["n_classes"] == 3


@pytest.mark.parametrize("name", EVERY)
class TestTampering:
    """Every entry of every file is damaged in every way we can think of."""

    def damage(self, document, where, value):
        changed = copy.deepcopy(document)
        *path, last = where
        place = changed
        for step in path:
            place = place[step]
        place[last] = value
        return changed

    def test_state_of_another_shape_or_type(self, name, fitted, tmp_path):
        document = fitted[name].to_dict()
        for entry, good in document["state"].items():
            for bad in ("x", None, [], {}, [[["x"]]], [1.0], [[1.0, 2.0], [3.0]]):
                if bad == good:
                    continue
                path = write(tmp_path / "c.json", self.damage(document, ["state", entry], bad))
                with pytest.raises(exceptions.FileFormatError, match="Hint"):
                    load_calibrator(path)

    def test_numbers_that_are_not_finite(self, name, fitted, tmp_path):
        document = fitted[name].to_dict()
        for entry, good in document["state"].items():
            if isinstance(good, bool | int):
                continue
            text = json.dumps(self.damage(document, ["state", entry], "HERE"))
            for bad in ("NaN", "Infinity", "1e999", "[NaN]", "[1e999]", "1" + "0" * 400):
                (tmp_path / "c.json").write_text(text.replace('"HERE"', bad))
                with pytest.raises(exceptions.FileFormatError):
                    load_calibrator(tmp_path / "c.json")

    def test_missing_and_unknown_entries(self, name, fitted, tmp_path):
        document = fitted[name].to_dict()
        for part in ("state", "options"):
            for entry in document[part]:
                changed = copy.deepcopy(document)
                del changed[part][entry]
                with pytest.raises(exceptions.FileFormatError, match=entry):
                    load_calibrator(write(tmp_path / "c.json", changed))
            changed = self.damage(document, [part, "colour"], 1)
            with pytest.raises(exceptions.FileFormatError, match="colour"):
                load_calibrator(write(tmp_path / "c.json", changed))

    def test_options_of_another_type(self, name, fitted, tmp_path):
        document = fitted[name].to_dict()
        for option in document["options"]:
            changed = self.damage(document, ["options", option], {"a": 1})
            with pytest.raises(exceptions.FileFormatError, match=option):
                load_calibrator(write(tmp_path / "c.json", changed))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("entry", "bad"),
        [
            ("kind", "expertload policy"),
            ("kind", None),
            ("schema_version", 2),
            ("schema_version", 0),
            ("schema_version", True),
            ("schema_version", "1"),
            ("method", "beta"),
            ("method", ["temperature"]),
            ("n_classes", 1),
            ("n_classes", 3.0),
            ("n_classes", True),
            ("state", []),
            ("options", None),
        ],
    )
    def test_header_with_a_wrong_entry(self, name, fitted, tmp_path, entry, bad):
        changed = self.damage(fitted[name].to_dict(), [entry], bad)
        with pytest.raises(exceptions.FileFormatError, match=entry.split("_")[0]):
            load_calibrator(write(tmp_path / "c.json", changed))

    def test_cut_short_anywhere(self, name, fitted, tmp_path):
        text = json.dumps(fitted[name].to_dict())
        for end in np.linspace(0, len(text) - 1, 25).astype(int):
            (tmp_path / "c.json").write_text(text[:end])
            with pytest.raises(exceptions.FileFormatError, match="not valid JSON"):
                load_calibrator(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("name", "where", "bad", "words"),
    [
        ("temperature", ["temperature_"], -1.0, "positive"),
        ("histogram", ["upper_edges_", 0, -1], 0.9, "ascend to 1"),
        ("histogram", ["values_", 0, 0], 1.5, "in \\[0, 1\\]"),
        ("histogram", ["values_", 0], [0.5], "as many"),
        ("isotonic", ["values_", 0, 0], 2.0, "rise"),
        ("isotonic", ["values_", 0, -1], 2.0, "in \\[0, 1\\]"),
        ("isotonic", ["values_", 0], [], "as many"),
        ("isotonic", ["proba_", 0, 0], 5.0, "rise"),
        ("spline", ["scores_", 0], 5.0, "ascend"),
        ("spline", ["heights_"], [0.0, 0.0], "as many as"),
        ("kcal", ["bandwidth_"], 0.0, "positive"),
        ("kcal", ["target_", 0], 7, "does not exist"),
        ("kcal", ["target_", 0], 0.5, "whole"),
        ("kcal", ["weight_", 0], -1.0, "positive"),
        ("matrix_scaling", ["matrix_"], [[1.0, 0.0], [0.0, 1.0]], "shape"),
        ("vector_scaling", ["converged_"], 1, "type bool"),
        ("vector_scaling", ["n_iter_"], True, "type int"),
    ],
)
def test_values_that_make_no_sense(fitted, name, where, bad, words):
    document = fitted[name].to_dict()
    *path, last = where
    place = document["state"]
    for step in path:
        place = place[step]
    place[last] = bad
    with pytest.raises(exceptions.FileFormatError, match=words):
        CALIBRATORS[name].from_dict(document)


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"', "\x00", "{" * 100_000])
def test_files_that_are_something_else(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(exceptions.FileFormatError):
        load_calibrator(tmp_path / "c.json")


def test_bytes_that_are_not_text(tmp_path):
    (tmp_path / "c.json").write_bytes(b"\x93NUMPY\xff\xfe")
    with pytest.raises(exceptions.FileFormatError):
        load_calibrator(tmp_path / "c.json")


def test_one_method_does_not_load_another(fitted):
    with pytest.raises(exceptions.FileFormatError, match="must be 'temperature', not 'platt'"):
        TemperatureScaling.from_dict(fitted["platt"].to_dict())


def test_a_newer_file_names_its_library(fitted):
    document = {**fitted["platt"].to_dict(), "schema_version": 9, "library_version": "7.5"}
    with pytest.raises(exceptions.FileFormatError, match="9 is newer.*upgrade expertload to 7.5"):
        CALIBRATORS["platt"].from_dict(document)


def test_labels_numbers_and_weights_survive(tmp_path):
    calibrator = KCal(bandwidth=1.0).fit([[0.1], [0.2]], [1, 0], sample_weight=[0.3, 0.7])
    calibrator.save(tmp_path / "c.json")
    assert load_calibrator(tmp_path / "c.json").target_.dtype == np.int64


class TestAtomicWrite:
    def test_a_failed_write_leaves_the_old_file(self, fitted, tmp_path, monkeypatch):
        path = tmp_path / "c.json"
        fitted["platt"].save(path)
        before = path.read_bytes()

        def broken(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="No space left"):
            fitted["temperature"].save(path)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["c.json"]

    def test_a_missing_folder_is_an_error(self, fitted, tmp_path):
        with pytest.raises(FileNotFoundError):
            fitted["platt"].save(tmp_path / "nowhere" / "c.json")

    @pytest.mark.processes
    @pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
    def test_killed_while_saving(self, tmp_path):
        """A process that saves without pause is killed; the file is always a whole one."""
        path = tmp_path / "c.json"
        source = Path(expertload.__file__).resolve().parents[1]
        program = textwrap.dedent(
            f"""
            import numpy as np
            from expertload.calibrators import KCal
            rng = np.random.default_rng(0)
            fitted = [
                KCal(bandwidth=float(i + 1)).fit(rng.normal(size=(400, 8)), np.arange(400) % 3)
                for i in range(2)
            ]
            print("ready", flush=True)
            while True:
                for calibrator in fitted:
                    calibrator.save({str(path)!r})
            """
        )
        for wait in (0.02, 0.05, 0.11):
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(source)},
            )
            with process:
                assert process.stdout.readline() == b"ready\n"
                while not path.exists():
                    assert process.poll() is None
                try:
                    process.wait(wait)
                except subprocess.TimeoutExpired:
                    process.kill()
            assert load_calibrator(path).bandwidth_ in (1.0, 2.0)
