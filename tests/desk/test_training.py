"""Answers that teach: what is exported for training, and what never is."""

from __future__ import annotations

import base64
import csv
import importlib.util
import io
import json
import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sqlalchemy import select, update
from typer.testing import CliRunner

from expertload._store import TRAINING_SET
from expertload.cli.app import app
from expertload.desk import Desk, Rules
from expertload.desk.intake.sampling import draw
from expertload.desk.queue.managing import erase
from expertload.desk.store.tables import cases, events
from expertload.desk.trail.training import export_for_training
from expertload.desk.watch.policies import look_back, withdraw
from expertload.desk.watch.recertify import blind_labels
from expertload.desk.watch.state import edit_rules
from expertload.exceptions import DeskRefusedError, FileFormatError, FileWriteError
from tests.desk.test_watch import read_all
from tests.desk.world import World, sent


def text(content: str) -> dict:
    return {"kind": "text", "content": content}


def image(grey: int) -> dict:
    out = io.BytesIO()
    Image.new("L", (4, 4), grey).save(out, "PNG")
    return {"kind": "image", "content": base64.b64encode(out.getvalue()).decode()}


def stream(world, n, *, prefix="case", clusters=0, first=0):
    """Send cases about half of which are delegated, and read all that is asked for."""
    rng = np.random.default_rng(n)
    batch = []
    for i in range(first, first + n):
        more = {"cluster": f"patient-{i % clusters}"} if clusters else {}
        key = f"{prefix}-{i}"
        batch.append(sent(key, float(rng.uniform(0.5, 1)), body=text(f"text of {key}"), **more))
    world.send(*batch)
    read_all(world, truth)


def truth(key: str) -> str:
    return "dog" if hash_of(key) % 7 == 0 else "cat"


def hash_of(key: str) -> int:
    return int(key.rpartition("-")[2])


def exported(world, tmp_path, name="set") -> pd.DataFrame:
    export_for_training(world.desk, tmp_path / name)
    return pd.read_parquet(tmp_path / name / "train.parquet")


def project(world):
    return world.desk.read(lambda transaction: transaction.project)


def is_apart(world, row) -> bool:
    """The rule once more, in plain words."""
    rules, here = project(world).rules, project(world)
    if row.cluster is None:
        in_fair_sample, unit = row.draw < row.rate, f"key {row.key}"
    else:
        in_fair_sample, unit = True, f"cluster {row.cluster}"
    v = draw(here.secret, "certify", here.name, unit)
    return in_fair_sample and v < rules.certify_share


@pytest.mark.slow
def test_no_case_both_trains_and_certifies_and_none_is_lost(world, tmp_path):
    world.with_rules(quality_rate=0.4, second_share=0.0)
    world.activate()
    stream(world, 120)
    trained = exported(world, tmp_path)
    certifying = world.desk.read(blind_labels)
    rows = {row.key: row for row in world.rows(select(cases))}
    labelled = {k for k, r in rows.items() if r.audit in ("right", "wrong") or r.state == "closed"}
    apart = {key for key, row in rows.items() if is_apart(world, row)}
    assert set(trained.key) == labelled - apart
    assert {case.key for case in certifying.cases} == apart == labelled & apart
    assert 0.3 < len(apart) / sum(row.draw < row.rate for row in rows.values()) < 0.7
    assert trained.label.tolist() == [truth(key) for key in trained.key]
    assert trained.text.tolist() == [f"text of {key}" for key in trained.key]
    assert (len(certifying.cases), certifying.n_open) == (len(apart), 0)


@pytest.mark.slow
def test_a_patient_is_on_one_side_with_all_cases(world, tmp_path):
    world.with_rules(quality_rate=0.4, second_share=0.0)
    world.activate()
    stream(world, 120, clusters=30)
    trained = exported(world, tmp_path)
    of = {row.key: row.cluster for row in world.rows(select(cases))}
    certify = {of[case.key] for case in world.desk.read(blind_labels).cases}
    assert certify
    assert not trained.empty
    assert not certify & set(trained.patient)
    assert set(trained.patient) == {of[key] for key in trained.key}


STEPS = ("send", "export", "certify", "raise the rate", "erase", "look back")


@pytest.mark.slow
@pytest.mark.parametrize("order", list(permutations(STEPS))[::149], ids=str)
def test_whatever_the_order_of_calls_nothing_leaks(world, tmp_path, order):
    """Each export is compared with all certifying samples, those before it and those after it."""
    world.with_rules(quality_rate=0.3, second_share=0.0)
    policy = world.activate()
    trained, certified, patients = set(), set(), (set(), set())
    stream(world, 60, clusters=25)
    stream(world, 40, prefix="single")
    for turn in range(2):
        for step in order:
            if step == "send":
                stream(world, 30, prefix=f"more{turn}", clusters=25)
            elif step == "export":
                found = exported(world, tmp_path, f"{turn}")
                trained |= set(found.key)
                patients[0].update(found.patient.dropna())
            elif step == "certify":
                sample = world.desk.read(blind_labels).cases
                certified |= {case.key for case in sample}
                patients[1].update(case.unit for case in sample if case.cluster is not None)
            elif step == "raise the rate":
                world.with_rules(quality_rate=0.3 + 0.2 * (turn + 1))
            elif step == "erase":
                world.desk.write(erase, next(iter(sorted(trained)), "case-0"))
            elif turn == 0:
                world.desk.write(withdraw, policy, reason="a test")
                world.desk.write(look_back, policy)
                read_all(world, truth)
    assert trained
    assert certified
    assert not trained & certified
    assert not {f"c:{patient}" for patient in patients[0]} & patients[1]


def test_the_share_is_fixed_from_the_first_export_on(world, tmp_path):
    world.desk.write(edit_rules, {"certify_share": 0.2})
    stream(world, 12)
    export_for_training(world.desk, tmp_path / "set")
    with pytest.raises(DeskRefusedError, match="'certify_share' cannot change any more"):
        world.desk.write(edit_rules, {"certify_share": 0.5})
    world.with_rules(quality_rate=0.5, certify_share=0.2)
    (event,) = world.rows(select(events).where(events.c.kind.startswith("training.exported")))
    assert event.kind == "training.exported: certify_share = 0.2"
    assert json.loads((tmp_path / "set/manifest.json").read_text())["event"] == event.id


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [0, 60])
def test_weights_stand_for_all_cases(world, tmp_path, clusters):
    """Weighted sums over the export estimate sums over all that came in; plain sums do not."""
    world.with_rules(quality_rate=0.5, second_share=0.0)
    world.activate()
    stream(world, 300, clusters=clusters)
    trained = exported(world, tmp_path)
    rows = {row.key: row for row in world.rows(select(cases))}
    sure = trained.key.map(lambda key: rows[key].accepted)
    n_sure = sum(row.accepted for row in rows.values())
    assert trained.weight[sure].nunique() == 1
    assert trained.weight[sure].iloc[0] == pytest.approx(1 / (0.5 * 0.5))
    assert trained.weight[~sure].unique() == pytest.approx([2.0 if clusters else 1 / 0.75])
    assert trained.weight[sure].sum() == pytest.approx(n_sure, rel=0.3)
    assert trained.weight.sum() == pytest.approx(300, rel=0.2)
    assert len(trained) < 220, "the plain sum does not"


@pytest.mark.slow
def test_after_a_look_back_the_cases_of_the_policy_weigh_less(world, tmp_path):
    world.with_rules(quality_rate=0.2, second_share=0.0)
    policy = world.activate()
    stream(world, 150)
    before = exported(world, tmp_path, "before")
    world.desk.write(withdraw, policy, reason="a test")
    world.desk.write(look_back, policy)
    read_all(world, truth)
    after = exported(world, tmp_path, "after")
    assert before.weight.max() == pytest.approx(1 / (0.2 * 0.5))
    assert len(after) > len(before)
    assert after.weight.max() == pytest.approx(1 / 0.9, rel=0.03), "all are labelled now"
    assert after.weight.sum() == pytest.approx(150, rel=0.1)


# ------------------------------------------------------------------ what trainers read


def test_images_are_written_into_folders_of_classes(world, tmp_path):
    world.with_rules(certify_share=0.0)
    world.send(*(sent(f"i-{i}", 0.6, body=image(40 * i)) for i in range(4)))
    world.send(sent("odd-9", 0.6, body=image(9)))
    read_all(world, lambda key: "dog" if key == "i-0" else "cat")
    manifest = export_for_training(world.desk, tmp_path / "set")
    with (tmp_path / "set/metadata.csv").open(newline="") as stream_:
        rows = list(csv.DictReader(stream_))
    assert [row["label"] for row in rows] == ["dog", "cat", "cat", "cat", "cat"]
    assert list(rows[0]) == ["file_name", "key", "label", "weight", "patient"]
    for row in rows:
        assert Path(row["file_name"]).parent.name == row["label"]
    with Image.open(tmp_path / "set" / rows[3]["file_name"]) as opened:
        assert (rows[3]["key"], opened.convert("L").getpixel((0, 0))) == ("i-3", 120)
    assert manifest["classes"] == {"cat": 4, "dog": 1}


def test_labels_that_are_no_names_of_folders(world, tmp_path):
    world.with_rules(certify_share=0.0, classes=("../up", "a/b"))
    world.send(sent("i-1", 0.6, body=image(1)), sent("i-2", 0.6, body=image(2)))
    read_all(world, lambda key: "../up" if key == "i-1" else "a/b")
    manifest = export_for_training(world.desk, tmp_path / "set")
    assert manifest["folders"] == {"../up": "%2E.%2Fup", "a/b": "a%2Fb"}
    found = sorted(p.parent.name for p in tmp_path.rglob("*.*") if p.suffix == ".png")
    assert found == ["%2E.%2Fup", "a%2Fb"]


@pytest.mark.parametrize("label", ["metadata.csv", "manifest.json", "😀" * 200, "=1+1"])
def test_no_label_of_a_reader_stops_an_export(world, tmp_path, label):
    """Where no classes are named, readers may answer anything."""
    one = {"key": "=2+3", "confidence": 0.5, "label": "x", "cluster": "@SUM(A1)"}
    world.with_rules(certify_share=0.0)
    world.send({**one, "body": image(1)})
    world.answer(world.claim(), label)
    manifest = export_for_training(world.desk, tmp_path / "set")
    folder = manifest["folders"][label]
    assert folder.isprintable()
    assert len(list((tmp_path / "set" / folder).iterdir())) == 1
    assert (tmp_path / "set/manifest.json").is_file()
    with (tmp_path / "set/metadata.csv").open(newline="") as stream_:
        (row,) = csv.DictReader(stream_)
    assert (row["key"], row["patient"]) == ("'=2+3", "'@SUM(A1)")
    assert row["label"].removeprefix("'") == label
    assert not row["label"].startswith("=")


def test_tables_become_columns_that_scikit_learn_reads(world, tmp_path):
    from sklearn.linear_model import LogisticRegression

    world.with_rules(certify_share=0.0)
    bodies = [
        {"kind": "table", "content": [["age", "bmi", "label"], [30 + i, 20.5 + i, "x"]]}
        for i in range(20)
    ]
    world.send(*(sent(f"t-{i}", 0.6, body=body) for i, body in enumerate(bodies)))
    world.send(sent("j-20", 0.6, body={"kind": "json", "content": {"age": 50, "site": ["a"]}}))
    world.send(sent("bare-21", 0.6))
    read_all(world, truth)
    found = exported(world, tmp_path)
    expected = ["key", "label", "weight", "patient", "age", "bmi", "body.label", "site"]
    assert list(found.columns) == expected
    assert found.set_index("key").site["j-20"] == '["a"]'
    assert found.set_index("key").age.isna()["bare-21"], "its label is there all the same"
    whole = found.dropna(subset=["age", "bmi"])
    model = LogisticRegression().fit(whole[["age", "bmi"]], whole.label, whole.weight)
    assert set(model.classes_) == {"cat", "dog"}


@pytest.mark.processes  # the package leaves files open, which fails a test
@pytest.mark.parametrize("kind", ["parquet", "imagefolder"])
def test_hugging_face_reads_an_export_as_it_is(world, tmp_path, kind):
    if importlib.util.find_spec("datasets") is None:
        pytest.skip("datasets is not installed")
    world.with_rules(certify_share=0.0)
    body = text("a text") if kind == "parquet" else image(40)
    world.send(sent("case-0", 0.6, body=body))
    read_all(world, lambda key: "cat")
    export_for_training(world.desk, tmp_path / "set")
    program = (
        "import datasets, json, sys\n"
        "kind, folder, cache = sys.argv[1:]\n"
        "(row,) = datasets.load_dataset(kind, split='train', data_dir=folder, cache_dir=cache)\n"
        "print(json.dumps(row, default=lambda image: image.size))"
    )
    command = [sys.executable, "-c", program, kind, tmp_path / "set", tmp_path / "cache"]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=offline, stdout=subprocess.PIPE, check=True)
    row = json.loads(done.stdout)
    assert (row["key"], row["label"], row["weight"]) == ("case-0", "cat", 1)
    assert row["text"] == "a text" if kind == "parquet" else row["image"] == [4, 4]


def test_columns_of_several_types_become_text(world, tmp_path):
    world.with_rules(certify_share=0.0)
    for number, value in enumerate((1, "one", None)):
        body = {"kind": "json", "content": {"value": value}}
        world.send(sent(f"m-{number}", 0.6, body=body))
    read_all(world, truth)
    assert exported(world, tmp_path).value.tolist()[:2] == ["1", "one"]


# ------------------------------------------------------------------ bad input


def test_a_folder_with_content_is_not_touched(world, tmp_path):
    stream(world, 12)
    (tmp_path / "set").mkdir()
    (tmp_path / "set/notes.txt").write_text("mine")
    with pytest.raises(FileWriteError, match="exists already"):
        export_for_training(world.desk, tmp_path / "set")
    assert [p.name for p in tmp_path.rglob("*")] == ["set", "notes.txt"]


def test_without_cases_nothing_is_written(world, tmp_path):
    with pytest.raises(DeskRefusedError, match="No case can train yet"):
        export_for_training(world.desk, tmp_path / "set")
    assert list(tmp_path.iterdir()) == []


def test_an_erased_case_does_not_train(world, tmp_path):
    world.with_rules(certify_share=0.0)
    stream(world, 3)
    world.desk.write(erase, "case-1")
    assert exported(world, tmp_path).key.tolist() == ["case-0", "case-2"]
    assert json.loads((tmp_path / "set/manifest.json").read_text())["left_out"]["erased"] == 1


def test_a_golden_case_does_not_train(world, tmp_path):
    world.with_rules(certify_share=0.0)
    stream(world, 3)
    golden = update(cases).where(cases.c.key == "case-1").values(truth="cat")
    world.desk.database.write(lambda connection: connection.execute(golden))
    assert exported(world, tmp_path).key.tolist() == ["case-0", "case-2"]


def test_cases_that_arrive_meanwhile_are_in_the_next_export(world, tmp_path, monkeypatch):
    """One snapshot: rows and their bodies are of one point in time."""
    from expertload.desk.trail import training

    world.with_rules(certify_share=0.0)
    stream(world, 5)
    add = training._TrainingSet.add

    def add_slowly(self, row):
        if row.key == "case-0":
            stream(world, 3, first=5)
        add(self, row)

    monkeypatch.setattr(training._TrainingSet, "add", add_slowly)
    assert len(exported(world, tmp_path, "first")) == 5
    monkeypatch.undo()
    assert len(exported(world, tmp_path, "second")) == 8


def test_a_manifest_edited_by_hand_is_noticed(world, tmp_path):
    stream(world, 20)
    export_for_training(world.desk, tmp_path / "set")
    path = tmp_path / "set/manifest.json"
    assert TRAINING_SET.read(path)["certify_share"] == 0.5
    path.write_text(path.read_text().replace('"certify_share": 0.5', '"certify_share": 0.0'))
    with pytest.raises(FileFormatError, match="changed after it was saved"):
        TRAINING_SET.read(path)
    again = export_for_training(world.desk, tmp_path / "again")
    assert again["certify_share"] == 0.5, "the desk takes nothing from a manifest"


def test_the_command(world, tmp_path):
    """The sentence of the manifest is printed."""
    data = tmp_path / "desk"
    with Desk.open(data, rules=Rules(certify_share=0.0)) as desk:
        stream(World(desk, world.clock), 3)
    wanted = ["desk", "export", str(tmp_path / "set"), "--for", "training", "--data", str(data)]
    printed = CliRunner().invoke(app, wanted)
    assert printed.exit_code == 0, printed.output
    assert "3 cases written to" in printed.output
    assert "0 labelled case(s) are not here" in " ".join(printed.output.split())


@pytest.mark.parametrize("purpose", ["training", "readers", "label-studio"])
def test_which_cases_is_not_asked_in_vain(tmp_path, purpose):
    Desk.open(tmp_path / "desk").close()
    wanted = ["desk", "export", str(tmp_path / "set"), "--for", purpose, "--cases", "audited"]
    done = CliRunner().invoke(app, [*wanted, "--data", str(tmp_path / "desk")])
    assert done.exit_code == 2
    assert f"--for {purpose} says which cases" in " ".join(done.output.split())
    assert not (tmp_path / "set").exists()
