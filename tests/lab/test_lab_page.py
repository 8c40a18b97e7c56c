"""The page about the lab: its recipe trains, its keys are those there are, its commands agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel
from tests.lab.conftest import SRC
from tests.lab.runs.test_own_data import write_images
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.lab.models import MODELS
from expertload.lab.runs.recipe import Recipe, load_recipe
from expertload.losses import build_loss

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "lab.md").read_text()


def block(language, marker):
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    return next(text for text in found if marker in text)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the recipe, the module and images, as the page has them."""
    (tmp_path / "my_lab.py").write_text(block("python", "def network"))
    (tmp_path / "scans.toml").write_text(block("toml", "[losses]"))
    write_images(tmp_path / "images")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("place")
def test_every_loss_of_the_recipe_can_be_built():
    recipe = load_recipe("scans.toml")
    for name in recipe.losses:
        for candidate in recipe.candidates(name):
            build_loss(name, weight=candidate.weight, **candidate.options)


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:TemperatureScaling")  # hardly trained
def test_the_commands_of_the_page_from_the_trial_to_the_comparison(place, monkeypatch):
    """As they stand there, but for the size of the recipe; the trial is no part of the table."""
    text = (place / "scans.toml").read_text()
    for long, short in (("= 40", "= 2"), ("[20, 30]", "[1]"), ("= 64", "= 16")):
        assert long in text
        text = text.replace(long, short)
    (place / "scans.toml").write_text(text.replace("rare = [2.0, 5.0]", "rare = [2.0]"))

    monkeypatch.setenv("PYTHONPATH", f"{SRC}:{place}")  # for the runs of the sweep

    def lab(*words):
        done = CliRunner().invoke(app, ["lab", *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    lab("train", "scans.toml", "--loss", "my_lab:weighted", "--set", "training.batch_size=8")
    lab("sweep", "scans.toml", "--losses", "ce, my_lab:weighted", "--seeds", "0")
    folders = [path.name for path in Path("runs/scans").glob("*-seed0-*")]
    assert sorted(name.split("-")[0] for name in folders) == ["ce", *["my_lab.weighted"] * 2]
    table = lab("table", "scans")
    assert "| my_lab:weighted (rare 2) | 1 |" in table
    assert "(with --set training.batch_size=8)" in table
    assert "AUCOC" in lab("compare", "my_lab:weighted", "ce", "--runs", "scans")


def keys(section, prefix=""):
    """(key, default as the page writes it) of a section and all below it."""
    for name, field in section.model_fields.items():
        parts = [field.annotation, *get_args(field.annotation)]
        if parts == [type(None)]:  # a setting of earlier versions
            continue
        below = [p for p in parts if isinstance(p, type) and issubclass(p, BaseModel)]
        if not below or len(parts) > 1:
            yield prefix + name, "required" if field.is_required() else written(field.default)
        for part in below:
            yield from keys(part, f"{prefix}{name}.")


def written(default):
    return "none" if default is None else f"`{json.dumps(default)}`"


def test_the_page_has_all_keys_of_a_recipe_with_their_defaults():
    section = PAGE.split("## All keys of a recipe")[1].split("\n## ")[0]
    shown = re.findall(r"^\| `([\w.]+)` \| (.*?) \|", section, flags=re.MULTILINE)
    expected = [(key, default) for key, default in keys(Recipe) if key != "name"]
    assert shown == [("extends", "none"), *expected]


def test_the_page_names_networks_that_there_are():
    row = next(line for line in PAGE.splitlines() if line.startswith("| `model.name`"))
    named = re.findall(r"`([\w-]+)`", row.split("|")[3])
    assert set(named) <= set(MODELS)


def test_pages_sweep_with_the_same_command():
    pages = [ROOT / "docs" / "lab.md", ROOT / "results" / "README.md"]
    commands = [
        re.findall(r"^(expertload lab sweep retinamnist-cpu.*?)(?: *#.*)?$", page.read_text(), re.M)
        for page in pages
    ]
    assert commands[0]
    assert commands[0] == commands[1]


def test_the_code_about_ensembles_runs():
    names = {}
    exec(block("python", "expertload.ensembling"), names)
    assert names["probabilities"].shape == (64, 2)
    assert names["model"].passes == 2 * names["choice"].passes
