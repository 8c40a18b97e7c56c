"""Recipes: read, changed, refused in words."""

from __future__ import annotations

import re
import tomllib

import pytest
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.runs.recipe import change, describe_recipes, load_recipe, merge

GOOD = """
data.name = "digits"
model.name = "small-cnn"
[training]
epochs = 3
batch_size = 64
learning_rate = 0.1
[losses]
ce = {}
"ce+sece" = { weight = [1.0, 2.0], temperature = [0.1, 1.0, 10.0] }
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine"):
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        return path

    return write


def runs_of(recipe, losses, seeds=(0,)):
    candidates = [candidate for loss in losses for candidate in recipe.candidates(loss)]
    return [recipe.run(candidate, seed) for candidate in candidates for seed in seeds]


def test_candidates_are_every_combination(write):
    recipe = load_recipe(write(GOOD))
    assert recipe.name == "mine"
    candidates = recipe.candidates("ce+sece")
    assert len(candidates) == 6
    assert {(c.weight, c.options["temperature"]) for c in candidates} == {
        (w, t) for w in (1.0, 2.0) for t in (0.1, 1.0, 10.0)
    }
    assert [c.name for c in recipe.candidates("focal")] == ["focal"]


def test_runs_have_names_of_their_own(write):
    recipe = load_recipe(write(GOOD))
    runs = runs_of(recipe, ["ce", "ce+sece"], [0, 1])
    assert len({run.run_name for run in runs}) == len(runs) == 14
    assert runs[0].run_name == runs_of(recipe, ["ce"])[0].run_name


def test_names_of_runs_outlive_new_settings(write):
    recipe = load_recipe(write(GOOD))
    names = [runs_of(recipe, [loss])[0].run_name for loss in ("ce", "ce+sece")]
    assert names == ["ce-seed0-1ecfad3359", "ce+sece-w1-seed0-e37b988794"]


def test_an_own_loss_makes_a_folder_name_that_every_system_takes(write):
    recipe = load_recipe(write(GOOD + '"ce+my_package.losses:build" = { weight = 2 }'))
    name = runs_of(recipe, ["ce+my_package.losses:build"])[0].run_name
    assert name.startswith("ce+my_package.losses.build-w2-seed0-")


def test_settings_are_changed_in_the_words_of_toml(write):
    settings = ["training.epochs=7", "model.name=resnet20", 'losses."ce+sece".weight=[3.0]']
    recipe = load_recipe(write(GOOD), settings=settings)
    assert recipe.training.epochs == 7
    assert recipe.training.batch_size == 64
    assert recipe.model.name == "resnet20"
    assert {c.weight for c in recipe.candidates("ce+sece")} == {3.0}


def test_an_empty_table_empties():
    assert merge({"options": {"stem": "medium"}}, {"options": {}}) == {"options": {}}


@pytest.mark.parametrize("setting", ["epochs", "=3", "", "a b=c"])
def test_settings_that_are_none(setting):
    with pytest.raises(ParameterError, match=r"section\.key=value"):
        change({}, [setting])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data.name = ", "not valid TOML"),
        (GOOD.replace("epochs = 3", "epochs = 0"), "training.epochs"),
        (GOOD.replace("epochs = 3", "epoch = 3"), "training.epochs: Field required"),
        (GOOD + "colour = 'red'", "losses.colour"),
        ("colour = 'red'\n" + GOOD, "there is no key 'colour'"),
        (GOOD.replace("epochs = 3", "epochs = 3\nmilestones = [5, 2]"), "must ascend"),
        (
            GOOD.replace("epochs = 3", "epochs = 3\nmilestones = [2]\nschedule = 'one-cycle'"),
            "milestones are for the schedule 'steps'",
        ),
        (GOOD.replace("epochs = 3", "epochs = 3\nwarm_up = 4"), "must not exceed epochs"),
        (GOOD.replace("epochs = 3", "epochs = 3\nprecision = '8-true'"), "training.precision"),
    ],
)
def test_what_is_not_a_recipe_is_said_in_words(text, said, write):
    with pytest.raises(FileFormatError) as raised:
        load_recipe(write(text))
    assert said in str(raised.value)
    assert "mine.toml" in str(raised.value)


def test_files_that_are_not_text(tmp_path):
    path = tmp_path / "bytes.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="not valid TOML"):
        load_recipe(path)


def test_names_nearby_are_suggested():
    with pytest.raises(FileFormatError, match="did you mean 'digits'"):
        load_recipe("digit")


def test_a_recipe_may_extend_another(write):
    write(GOOD, "base")
    recipe = load_recipe(write('extends = "base"\ntraining.epochs = 9', "longer"))
    assert (recipe.name, recipe.training.epochs, recipe.training.batch_size) == ("longer", 9, 64)


def test_extending_itself_or_nothing_is_refused(write):
    with pytest.raises(FileFormatError, match="extends itself"):
        load_recipe(write('extends = "mine"'))
    with pytest.raises(FileFormatError, match="extends 'nothing'"):
        load_recipe(write('extends = "nothing"'))


# ------------------------------------------------------------------ files, and what is wrong


def test_a_recipe_of_your_own_extends_one_of_the_librarys(write):
    recipe = load_recipe(write('extends = "digits"\ntraining.epochs = 77'))
    assert (recipe.data.name, recipe.training.epochs) == ("digits", 77)
    assert recipe.losses == load_recipe("digits").losses


def test_a_recipe_may_have_the_name_of_what_it_extends(tmp_path):
    (tmp_path / "digits.toml").write_text('extends = "digits"\ntraining.epochs = 77')
    assert load_recipe(tmp_path / "digits.toml").training.epochs == 77


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("training.epoch=3", "there is no key 'training.epoch' (did you mean 'training.epochs'?)"),
        ("trainig.epochs=3", "there is no key 'trainig'"),
        ("training.epochs=0", "training.epochs: Input should be greater than or equal to 1"),
        ("data.augment.flips=true", "did you mean 'data.augment.flip'?"),
        ("training=3", "training: Input should be"),
    ],
)
def test_a_wrong_setting_is_blamed_on_the_setting(setting, said):
    with pytest.raises(ParameterError, match=re.escape(f"The setting {setting} is not valid")):
        load_recipe("digits", settings=["training.batch_size=32", setting])
    with pytest.raises(ParameterError, match=re.escape(said)):
        load_recipe("digits", settings=[setting])


def test_a_wrong_key_of_a_file_is_blamed_on_the_file(write):
    path = write('extends = "digits"\ntraining.epoch = 3')
    with pytest.raises(FileFormatError, match=r"mine\.toml is not a recipe.*'training\.epochs'"):
        load_recipe(path, settings=["training.epochs=2"])


def test_the_recipes_are_listed_and_printed():
    assert all(what.endswith((".", "?")) for what in describe_recipes().values())
    listed = CliRunner().invoke(app, ["lab", "recipes"])
    assert listed.exit_code == 0
    for name in ("digits", "retinamnist-cpu", "retinamnist-gradient-cpu"):
        assert re.search(rf"^{name} +\S", listed.output, re.MULTILINE)
    printed = CliRunner().invoke(app, ["lab", "recipes", "digits"])
    assert tomllib.loads(printed.output)["extends"] == "common/cpu-losses"
    unknown = CliRunner().invoke(app, ["lab", "recipes", "digit"])
    assert unknown.exit_code == 1
    assert "did you mean 'digits'?" in unknown.output


def test_the_name_of_a_file_here_is_answered_with_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scans.toml").write_text("")
    with pytest.raises(
        FileFormatError, match=r"no recipe at scans\. Hint: pass the file, scans\.toml"
    ):
        load_recipe("scans")
