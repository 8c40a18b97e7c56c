"""A desk's cases and answers in the files of Label Studio and Argilla."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image
from sqlalchemy import select
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk import Desk
from expertload.desk.queue.managing import erase
from expertload.desk.store.tables import answers
from expertload.desk.trail.training import answered_cases, export_annotations
from expertload.io import read_annotations, readings_of
from tests.desk.test_watch import read_all
from tests.desk.world import sent


def png() -> bytes:
    out = io.BytesIO()
    Image.new("L", (4, 4), 9).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def used(world):
    """Thirty cases, of which many were read, some by two readers and an arbiter."""
    world.with_rules(quality_rate=0.5)
    world.activate()
    image = {"kind": "image", "content": base64.b64encode(png()).decode()}
    table = {"kind": "table", "content": [["age", "key"], [42, "k"]]}
    bodies = {0: image, 1: table, 2: {"kind": "json", "content": {"a": [1, 2]}}}
    for i in range(30):
        body = bodies.get(i, {"kind": "text", "content": f"Größe {i}"})
        world.send(sent(f"case-{i}", 0.5 + (i % 50) / 100, body=body))
    read_all(world, lambda key: "dog" if key.endswith("7") else "cat")
    world.send(sent("unread", 0.6))
    return world


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
def test_cases_and_answers_leave_and_come_back(used, tmp_path, tool):
    path = tmp_path / "cases.json"
    assert export_annotations(used.desk, path, tool=tool) == 31
    found = read_annotations(path)
    assert list(found) == used.desk.read(answered_cases)
    by_key = {one.case: one for one in found}
    assert by_key["case-5"].data == {"text": "Größe 5"}
    assert by_key["case-0"].data["image"].startswith("data:image/png;base64,")
    assert base64.b64decode(by_key["case-0"].data["image"].partition(",")[2]) == png()
    assert by_key["case-1"].data == {"age": 42, "body.key": "k"}
    assert by_key["unread"].answers == ()
    assert (by_key["unread"].predicted, by_key["unread"].confidence) == ("cat", 0.6)
    counted = [row for row in used.rows(select(answers)) if row.standing == "counted"]
    readings = readings_of(found)
    assert len(readings) == len(counted) > 10
    assert set(readings.labels) == {"cat", "dog"}


@pytest.mark.slow
def test_corrected_and_erased_content_does_not_leave(used):
    before = {one.case: one for one in used.desk.read(answered_cases)}
    corrected = next(row for row in used.rows(select(answers)) if row.standing == "counted")
    case = next(key for key in before if used.case(key).id == corrected.case_id)
    other = "dog" if corrected.label == "cat" else "cat"
    changed = {"label": other, "submission": "corrected", "supersedes": corrected.id}
    row = {key: value for key, value in corrected._mapping.items() if key != "id"} | changed
    used.desk.write(lambda t: t.connection.execute(answers.insert().values(**row)) and None)
    closed = next(key for key in before if key != case and before[key].answers)
    used.desk.write(erase, closed)
    after = {one.case: one for one in used.desk.read(answered_cases)}
    reader = next(name for name, label in before[case].answers if label == corrected.label)
    assert dict(after[case].answers)[reader] == other
    assert len(after[case].answers) == len(before[case].answers)
    assert after[closed].data == {}


@pytest.mark.slow
def test_the_command(tmp_path):
    Desk.open(tmp_path / "desk").close()
    out = tmp_path / "tasks.json"
    words = ["desk", "export", str(out), "--data", str(tmp_path / "desk"), "--for", "label-studio"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "0 cases written" in result.output
    assert read_annotations(out) == ()
