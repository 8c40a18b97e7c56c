"""`expertload plot`, as it is typed."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from matplotlib import image, pyplot

from tests.io.files import predictions, write


@pytest.fixture
def run(run):
    yield partial(run, "plot")
    pyplot.close("all")


@pytest.fixture
def file(tmp_path):
    write(tmp_path / "model.csv", predictions(400))
    return tmp_path / "model.csv"


STARTS = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STARTS)
def test_each_kind_of_picture_twice_the_same(run, file, tmp_path, kind):
    said = run(file, "--out", f"coc.{kind}", "--target-accuracy", 0.95).stdout
    used = "model.csv: label: label, probabilities: p_cat, p_dog, p_owl"
    assert said.splitlines() == [used, f"The plot is in coc.{kind}."]
    first = (tmp_path / f"coc.{kind}").read_bytes()
    assert first.startswith(STARTS[kind])
    run(file, "--out", f"coc.{kind}", "--target-accuracy", 0.95)
    assert (tmp_path / f"coc.{kind}").read_bytes() == first


@pytest.mark.slow
def test_it_is_no_blank_sheet(run, file, tmp_path):
    run(file, "--out", tmp_path / "coc.PNG")
    picture = image.imread(tmp_path / "coc.PNG")
    assert picture.shape[0] > 800
    assert 0.01 < np.mean(picture[..., :3].min(axis=2) < 0.8) < 0.5


@pytest.mark.slow
def test_several_models_by_name(run, file, tmp_path):
    write(tmp_path / "other.csv", predictions(400, seed=1))
    with pyplot.rc_context({"svg.fonttype": "none"}):
        run(
            *(file, tmp_path / "other.csv", "--out", "coc.svg", "--title", "$a$ _b"),
            *("--name", "_old $x$", "--name", "new", "--target-accuracy", 0.9),
        )
    text = re.sub(r"<[^>]+>", "", (tmp_path / "coc.svg").read_text("utf-8"))
    assert "_old $x$: AUCOC 0." in text
    assert "new: AUCOC 0." in text
    assert "$a$ _b" in text
    assert text.count("accuracy at") == 2


@pytest.mark.parametrize("out", ["coc.html", "coc", "coc.jpg", "coc.csv", ".png"])
def test_other_suffixes_are_refused_in_a_sentence(run, file, tmp_path, out):
    before = sorted(tmp_path.iterdir())
    assert "must be written as .png, .svg, .pdf" in run(file, "--out", out, code=1).stderr
    assert sorted(tmp_path.iterdir()) == before


def test_what_cannot_be_done_is_said(run, file, tmp_path):
    assert "no folder" in run(file, "--out", "nowhere/coc.png", code=1).stderr
    assert "no.csv" in run("no.csv", "--out", "coc.png", code=1).stderr
    result = run(file, "--out", "coc.png", "--name", "a", "--name", "b", code=2)
    assert "once for each model, 1 in all. Got 2." in result.stderr
    assert "--out" in run(file, code=2).stderr
    assert sorted(tmp_path.iterdir()) == [file]


@pytest.mark.slow
def test_correctness_and_confidence_will_do(run, tmp_path):
    rows = "\n".join(f"{i % 3 > 0:d},{i / 50}" for i in range(50))
    (tmp_path / "c.csv").write_text(f"ok,score\n{rows}\n")
    run("c.csv", "--correct", "ok", "--confidence", "score", "--out", "coc.pdf")
    assert (tmp_path / "coc.pdf").stat().st_size > 5000


@pytest.mark.slow
def test_several_models_in_one_file(run, file, tmp_path):
    header, *rows = file.read_text().splitlines()
    both = [f"{name},{row}" for name in ("A", "B") for row in rows]
    (tmp_path / "long.csv").write_text("\n".join([f"model,{header}", *both]) + "\n")
    refused = run(tmp_path / "long.csv", "--out", "no.svg", code=1)
    assert "--model-column model" in refused.stderr
    run(tmp_path / "long.csv", "--out", "two.svg", "--model-column", "model")
    run(file, file, "--name", "A", "--name", "B", "--out", "same.svg")
    assert (tmp_path / "two.svg").read_bytes() == (tmp_path / "same.svg").read_bytes()


def test_cases_of_a_patient_widen_the_band(run, tmp_path):
    table = {name: np.repeat(values[:100], 4) for name, values in predictions(400).items()}
    table["patient"] = np.array([f"q{i // 4}" for i in range(400)])
    write(tmp_path / "scans.csv", table)
    warned = run("scans.csv", "--id", "none", "--out", "plain.svg")
    assert "Warning: The column 'patient' of scans.csv has 100 distinct values" in warned.stderr
    said = run("scans.csv", "--id", "none", "--cluster", "patient", "--out", "wide.svg")
    assert "Warning" not in said.stderr
    assert "cluster: patient" in said.stdout
    plain, wide = ((tmp_path / name).read_text() for name in ("plain.svg", "wide.svg"))
    assert plain != wide
