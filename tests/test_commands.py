"""Every command on a page is one that there is, and those that can run here do."""

from __future__ import annotations

import re
import shutil
import tomllib

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk import Desk
from expertload.desk.trail.chain import seal_events
from tests.io.files import predictions, write
from tests.pages import PAGES, ROOT, commands, page_id

# Not run by this file, and why: the first words of a command, or a word in it.
ELSEWHERE = {
    "lab train": "trains: tests/lab/test_lab_page.py",
    "lab sweep": "trains: tests/lab/test_lab_page.py",
    "lab lower-load": "trains: tests/lab/ladder/test_lower_load.py",
    "lab table": "needs runs: tests/lab/test_lab_page.py",
    "lab compare": "needs runs: tests/lab/test_lab_page.py",
    "lab evaluate": "needs runs: tests/cli/test_lab_results.py",
    "lab ensemble": "needs runs: tests/lab/results/test_ensemble_runs.py",
    "lab predict": "needs runs: tests/lab/results/test_predict.py",
    "decide runs/lower-load": "needs runs: tests/lab/ladder/test_lower_load.py",
    "lab ood": "needs runs: tests/lab/results/test_ood.py",
    "lab data fetch": "needs the network: tests/lab/data/test_fetch.py",
    "desk demo": "runs until it is stopped: tests/desk/test_demo.py",
    "desk serve": "runs until it is stopped: tests/desk/test_faults.py",
    "desk send": "needs a server: tests/desk/test_send_file.py",
    "desk export answers/ --for training": "needs answers: tests/desk/test_training.py",
    "desk erase": "needs a case: tests/desk/test_trail.py",
    "desk restore": "needs PostgreSQL on the page: tests/desk/test_migrations.py",
}
TREE = typer.main.get_command(app)
ALONE = ("recipes", "demo", "list")  # these do something without a word more
WORDS_FOR = {"FILE": "predictions.parquet", "FOLDER": "desk", "desk/": "desk"}


def find(words):
    """The command that some words call, and the words that are left for it."""
    command, rest = TREE, list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"there is no command {' '.join(words)!r}"
        command = command.commands[rest.pop(0)]
    return command, rest


def spoken(page):
    """The commands of expertload on a page; a name alone, inside a sentence, is none."""
    called = [words[1:] for words in commands(page) if words[0] == "expertload"]
    return [words for words in called if find(words)[1] or find(words)[0].name in ALONE]


def why_elsewhere(words):
    line = " ".join(words)
    return next((why for start, why in ELSEWHERE.items() if line.startswith(start)), None)


ALL = [pytest.param(w, id=f"{page_id(p)}: {' '.join(w)}") for p in PAGES for w in spoken(p)]
HERE = [case for case in ALL if not why_elsewhere(case.values[0])]


@pytest.mark.parametrize("words", ALL)
def test_the_command_is_one_that_there_is(words):
    """Its name and its options are known; nothing is run."""
    command, rest = find(words)
    if "--help" not in rest and not hasattr(command, "commands"):
        command.make_context(" ".join(words), rest)


def run(*words):
    done = CliRunner().invoke(app, list(words), prog_name="expertload")
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder with the files that the pages speak of, and a desk."""
    folder = tmp_path_factory.mktemp("pages")
    table = {"case_id": np.arange(3000), **predictions(3000)}
    table["y_true"] = table.pop("label")
    del table["id"], table["group"]
    names = ("a.csv", "b.csv", "small.csv", "large.csv", "predictions.parquet", "audited.parquet")
    for name in names:
        write(folder / name, table)
    read = np.where(np.arange(3000) % 10, table["y_true"], np.roll(table["y_true"], 1))
    write(folder / "predictions.csv", {**table, "doctor": read})
    write(folder / "new.parquet", {k: v for k, v in table.items() if k != "y_true"})
    rows = np.arange(3000)
    in_branches = {"branch": np.array(["north", "south"])[rows % 2], "customer": rows // 3}
    write(folder / "claims.csv", {**table, **in_branches})
    malignant = np.random.default_rng(0).beta(0.2, 0.4, 3000)
    found = np.where(np.random.default_rng(1).random(3000) < malignant, "malignant", "benign")
    screened = {"label": found, "p_benign": 1 - malignant, "p_malignant": malignant}
    write(folder / "screening.csv", screened)
    said = '{{"label": "{0}", "answers": ["{0}", "a", "{0}"]}}\n'
    judged = "".join(said.format(one) for one in "ab" * 200)
    (folder / "judgements.jsonl").write_text(judged)
    sure = np.tile([0.9, 0.2], 200)
    write(folder / "words.csv", {"label": np.array(list("ab" * 200)), "p_a": sure, "p_b": 1 - sure})
    audits = "\n".join(f"{case},1" for case in range(90))
    (folder / "audits.csv").write_text(f"case_id,correct\n{audits}\n")
    policy, desk = str(folder / "policy.json"), str(folder / "desk")
    run("evaluate", str(folder / "predictions.parquet"), "--save-policy", policy)
    decided = ("--keep", "case_id", "--out", str(folder / "decisions.csv"))
    run("decide", policy, str(folder / "new.parquet"), *decided)
    run("desk", "policy", "activate", policy, "--data", desk)
    with Desk.open(desk) as opened:
        seal_events(opened)
    return folder


@pytest.fixture
def place(original, tmp_path, monkeypatch):
    """A copy of that folder to work in."""
    monkeypatch.chdir(shutil.copytree(original, tmp_path / "pages"))


def head_of_the_desk():
    return re.search(r"Head:\s*(\S+)", run("desk", "verify", "--data", "desk"))[1]


@pytest.mark.slow
@pytest.mark.parametrize("words", HERE)
@pytest.mark.usefixtures("place")
def test_the_command_runs(words):
    words = [WORDS_FOR.get(word, word) for word in words]
    run(*(head_of_the_desk() if word == "HEAD" else word for word in words))


def test_make_has_the_targets_that_pages_name():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {words[1] for page in PAGES for words in commands(page) if words[0] == "make"}
    assert named
    assert named <= targets


def test_the_extras_that_pages_install_are_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pages = "\n".join(page.read_text() for page in PAGES)
    named = {e for group in re.findall(r"expertload\[([\w,-]+)\]", pages) for e in group.split(",")}
    assert named
    assert named <= set(project["optional-dependencies"])
