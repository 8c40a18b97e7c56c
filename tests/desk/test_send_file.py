"""`expertload desk send FILE`: the cases of a file, without a program."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import func, select
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk import client
from expertload.desk.store.tables import bodies, cases
from tests.desk.world import policy_text


def send(world, file, *options, code=0):
    """Run the command; return what it says."""
    token = world.token("model", "api")
    words = ["desk", "send", file, "--address", world.address, "--token", token, *options]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "new.csv"
    rows = [f"{i},{0.99 if i % 2 else 0.6},{0.01 if i % 2 else 0.4},text {i}" for i in range(40)]
    path.write_text("\n".join(["id,p_cat,p_dog,letter", *rows]) + "\n")
    return path


def n_stored(world):
    ((n,),) = world.rows(select(func.count()).select_from(cases))
    return n


def test_a_file_is_sent_and_the_outcome_is_summarised(served, file):
    served.activate()
    said = send(served, file, "--text", "letter")
    assert "40 cases: 20 delegated, 20 decided." in said
    assert "20 delegated: below threshold" in said
    assert served.case("7").predicted == "cat"
    contents = {row.content for row in served.rows(select(bodies))}
    assert contents == {f"text {i}".encode() for i in range(40)}
    assert send(served, file, "--text", "letter") == said  # again, after an interruption
    assert n_stored(served) == 40


def test_equal_refusals_are_one_line(served, file):
    served.activate()
    send(served, file)
    file.write_text(file.read_text().replace("0.6,0.4", "0.7,0.3"))
    said = send(served, file, code=1)
    assert said.count("refused: ") == 1
    assert "20 refused: The key '…' belongs to a case with other content. Hint: give every" in said
    assert "First case: 0" in said


def test_without_the_name_of_the_model_only_the_first_case_is_spent(served, file):
    served.activate(policy_text(model_name="net"))
    assert "Only the first case, '0', was sent" in send(served, file, code=1)
    assert n_stored(served) == 1
    said = send(served, file, "--model", "net", code=1)  # the first case was sent without it
    assert "40 cases: 1 refused, 20 decided, 19 delegated" in said
    other = file.with_name("other.csv")
    other.write_text(file.read_text().strip().replace("\n", "\nx"))
    assert "40 delegated: unknown model" in send(served, other, "--model", "nets")


def test_images_are_sent_from_the_folder_of_the_file(served, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "MOST_BYTES", 500)  # several requests
    for i in range(3):
        Image.new("RGB", (20, 20), (i, 0, 0)).save(tmp_path / f"{i}.png")
    lines = [{"id": i, "p_cat": 0.9, "p_dog": 0.1, "photo": f"{i}.png"} for i in range(3)]
    path = tmp_path / "new.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "3 cases: 3 delegated" in send(served, path, "--image", "photo")
    assert {row.kind for row in served.rows(select(bodies))} == {"image"}
    (tmp_path / "1.png").unlink()
    assert "1.png could not be read" in send(served, path, "--image", "photo", code=1)


def test_every_kind_of_prediction_is_sent(served, tmp_path):
    logits = np.array([[3.0, 1.0], [0.0, 2.0]])
    np.savez(tmp_path / "a.npz", id=["a", "b"], logit_cat=logits[:, 0], logit_dog=logits[:, 1])
    send(served, tmp_path / "a.npz")
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    stored = json.loads(served.case("a").probabilities)
    assert stored == pytest.approx(dict(zip(("cat", "dog"), expected[0], strict=True)))
    (tmp_path / "b.csv").write_text("case_id,confidence,y_pred,group\nc,0.7,dog,north\n")
    send(served, tmp_path / "b.csv")
    case = served.case("c")
    assert (case.confidence, case.predicted, case.group_name) == (0.7, "dog", "north")


@pytest.mark.parametrize(
    "content", ["p_cat,p_dog\n0.9,0.1\n", "id,p_cat\na,0.9\n", "id,confidence\na,0.9\n"]
)
def test_a_file_that_lacks_something_is_refused(served, tmp_path, content):
    (tmp_path / "x.csv").write_text(content)
    assert "cannot be sent" in send(served, tmp_path / "x.csv", code=1)
    assert n_stored(served) == 0


def test_without_a_token_it_says_where_to_get_one(file, monkeypatch):
    monkeypatch.delenv("EXPERTLOAD_DESK_TOKEN", raising=False)
    done = CliRunner().invoke(app, ["desk", "send", str(file)])
    assert done.exit_code == 2
    assert "EXPERTLOAD_DESK_TOKEN" in done.output


def test_what_is_refused_or_not_sent_ends_with_an_error(served, file, monkeypatch):
    send(served, file)
    file.write_text(file.read_text().replace("0.6,0.4", "0.7,0.3"))
    said = send(served, file, code=1)
    assert "20 refused" in said
    assert "other content" in said
    monkeypatch.setattr(client.time, "sleep", lambda seconds: None)
    served.address = "http://127.0.0.1:9"
    assert "40 not sent" in send(served, file, code=1)
