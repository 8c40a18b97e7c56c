"""Files on disk, read by DuckDB, and every way in which they can be wrong."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest

import expertload as el
from expertload import Cases, exceptions
from expertload._labels import TRUTHS
from expertload.io import FileOptions, read_predictions, scan_file, tally_frame

duckdb = pytest.importorskip("duckdb")
CONFIDENCE = [0.5, 0.625, 0.75, 0.75, 1.0]
CORRECT = [False, True, False, True, True]
WANTED = el.aucoc_score(Cases.from_correctness(CORRECT, CONFIDENCE))


def csv_text():
    rows = zip(CONFIDENCE, CORRECT, strict=True)
    return "confidence,correct\n" + "".join(f"{c},{str(k).lower()}\n" for c, k in rows)


def write(path: Path) -> Path:
    rows = zip(CONFIDENCE, CORRECT, strict=True)
    if path.suffix == ".parquet":
        values = ", ".join(f"({c}::float, {k})" for c, k in rows)
        relation = duckdb.connect().sql(f"select * from (values {values}) t(confidence, correct)")
        relation.write_parquet(str(path))
    elif path.suffix == ".jsonl":
        lines = (json.dumps({"confidence": c, "correct": k}) for c, k in rows)
        path.write_text("\n".join(lines))
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(csv_text().encode()))
    else:
        path.write_text(csv_text())
    return path


@pytest.mark.parametrize("name", ["p.parquet", "p.csv", "p.csv.gz", "p.jsonl", "Größe 'x'.CSV"])
def test_files_equal_numpy(name, tmp_path):
    table = tally_frame(scan_file(write(tmp_path / name), threads=1, memory_limit="200MB"))
    assert table.aucoc() == pytest.approx(WANTED, abs=1e-12)


@pytest.mark.slow
def test_patterns_and_lists_of_files_are_read_together(tmp_path):
    paths = [write(tmp_path / f"day{i}.parquet") for i in range(3)]
    day = tally_frame(scan_file(paths[0]))
    for several in (tmp_path / "day*.parquet", str(tmp_path / "*.parquet"), paths):
        table = tally_frame(scan_file(several))
        assert table.n_cases == 15
        np.testing.assert_array_equal(table.weight, (day + day + day).weight)


@pytest.mark.parametrize("index", ["", ","])
@pytest.mark.parametrize("pair", [("no", "yes"), ("F", "T"), ("False", "True"), ("0", "1")])
def test_labels_of_a_csv_are_matched_by_name(tmp_path, index, pair):
    """Also with the nameless index that pandas writes, and words that DuckDB takes for truths."""
    rng = np.random.default_rng(0)
    p = rng.random(50)
    y = (rng.random(50) < p).astype(int)
    rows = [f"{pair[k]},{share},{1 - share}" for k, share in zip(y, p, strict=True)]
    if index:
        rows = [f"{i},{row}" for i, row in enumerate(rows)]
    header = f"{index}label,p_{pair[1]},p_{pair[0]}"
    (tmp_path / "x.csv").write_text("\n".join([header, *rows]) + "\n")
    table = tally_frame(scan_file(tmp_path / "x.csv"), probabilities="p_*")
    assert table.aucoc() == pytest.approx(el.aucoc_score(y, p), abs=1e-12)


def test_words_for_right_and_wrong_are_those_that_evaluate_reads(tmp_path):
    right, wrong = ([word for word, truth in TRUTHS.items() if truth == t] for t in (1, 0))
    for pair in zip(right, wrong, strict=True):
        rows = "\n".join(f"0.{k + 1},{word}" for k, word in enumerate(pair))
        (tmp_path / "x.csv").write_text(f"confidence,correct\n{rows.upper()}\n")
        table, read = (
            tally_frame(scan_file(tmp_path / "x.csv")),
            read_predictions(tmp_path / "x.csv"),
        )
        assert table.cases().correct.tolist() == read.cases.correct.tolist() == [1.0, 0.0]


def test_a_format_can_be_named(tmp_path):
    path = tmp_path / "predictions.txt"
    path.write_text(csv_text())
    assert tally_frame(scan_file(path, options=FileOptions(format="csv"))).n_cases == 5
    path.rename(tmp_path / "predictions")
    with pytest.raises(exceptions.FileFormatError, match="not known from its name.*format"):
        scan_file(tmp_path / "predictions")
    with pytest.raises(exceptions.ParameterError, match="'format'"):
        FileOptions(format="excel")


@pytest.mark.slow
def test_larger_than_the_memory_allowed(tmp_path):
    """Two million distinct values in 60 MB: the work goes to disk and cleans up after itself."""
    path, spill = tmp_path / "many.parquet", tmp_path / "spill"
    duckdb.sql(
        "select (i::double * 7919 % 2000000) / 2000000 as confidence, i % 3 > 0 as correct "
        "from range(4000000) t(i)"
    ).write_parquet(str(path))
    options = {"memory_limit": "60MB", "threads": 2, "temp_directory": spill}
    table = tally_frame(scan_file(path, **options))
    assert len(table.confidence) == 2_000_000
    assert (table.weight == 2).all()
    assert not spill.exists() or not list(spill.iterdir())


def test_missing_files_and_bad_options(tmp_path):
    with pytest.raises(exceptions.DataNotFoundError, match="There is no file .*none.parquet"):
        scan_file(tmp_path / "none.parquet")
    with pytest.raises(FileNotFoundError):
        scan_file(tmp_path / "*.csv")
    with pytest.raises(exceptions.ParameterError, match="must name a file"):
        scan_file([])
    path = write(tmp_path / "p.csv")
    with pytest.raises(exceptions.ParameterError, match="'memory_limit'.*'1GB'"):
        scan_file(path, memory_limit="much")
    with pytest.raises(exceptions.ParameterError, match="'threads'"):
        scan_file(path, threads=0)


@pytest.mark.parametrize("name", ["p.parquet", "p.jsonl"])
def test_files_of_another_kind_are_refused(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"\x00\x01 this is neither \xff")
    with pytest.raises(exceptions.ExpertLoadError):
        tally_frame(scan_file(path))


def test_a_line_that_breaks_late_is_a_sentence(tmp_path):
    path = tmp_path / "late.csv"
    good = "confidence,correct\n" + "0.5,true\n" * 50_000
    path.write_text(good + "oops,maybe\n")
    with pytest.raises(exceptions.FileFormatError, match="DuckDB could not read.*Hint"):
        tally_frame(scan_file(path))


def test_a_limit_that_is_too_tight_is_duckdbs_own_error(tmp_path):
    path = write(tmp_path / "p.parquet")
    relation = scan_file(path, memory_limit="1KB")
    with pytest.raises(duckdb.OutOfMemoryException):
        tally_frame(relation)


def outcome_of(path):
    try:
        return tally_frame(scan_file(path)).n_cases
    except exceptions.ExpertLoadError as error:
        return str(error)


@pytest.mark.slow
def test_broken_csv_is_always_a_sentence(tmp_path):
    """Random damage to a good file: a result or one of our errors, never another traceback."""
    dice = random.Random(0)
    text = csv_text() * 3
    for i in range(40):
        damaged = list(text)
        for _ in range(dice.randint(1, 8)):
            damaged[dice.randrange(len(damaged))] = dice.choice(["\n", ",", '"', "é", "\x00", "9"])
        path = tmp_path / f"{i}.csv"
        path.write_text("".join(damaged))
        outcome = outcome_of(path)
        assert outcome > 0 if isinstance(outcome, float) else "Got" in outcome or "Hint" in outcome
