"""The command line: help, errors as sentences, exit codes, nothing heavy before it is needed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

from expertload._names import FORMATS, METHODS
from expertload.calibrators import CALIBRATORS, CalibrationWarning
from expertload.cli.app import app
from expertload.ensembling import view_names
from expertload.exceptions import FileFormatError
from expertload.lab.results.measures import MEASURE_NAMES
from expertload.monitoring.audits import Order
from expertload.operating_point import ClusterPromise
from tests import forked

SRC = Path(__file__).resolve().parents[2] / "src"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], prog_name="expertload")


def in_process(*arguments, code=None):
    command = ["-c", code] if code else ["-m", "expertload", *map(str, arguments)]
    return subprocess.run(
        [sys.executable, *command],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments", [["--help"], ["lab", "--help"], ["lab", "data", "-h"], ["lab", "sweep", "--help"]]
)
def test_help(arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert "Usage: expertload" in result.output


@pytest.mark.processes
def test_help_is_quick_because_nothing_heavy_is_imported():
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from expertload.cli.app import app\n"
        "for command in ([], ['lab', 'train'], ['lab', 'sweep']):\n"
        "    assert CliRunner().invoke(app, [*command, '--help']).exit_code == 0\n"
        "print(*sys.modules)"
    )
    loaded = in_process(code=code).stdout.split()
    assert "expertload.cli.lab_train" in loaded
    for module in ("torch", "lightning", "matplotlib", "sklearn", "submitit", "pooch"):
        assert module not in loaded


@pytest.mark.processes
def test_without_the_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None\nfrom expertload.cli import main; main()"
    done = in_process(code=code)
    assert done.returncode == 1
    assert "pip install 'expertload[report]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.processes
def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "expertload", "--version"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("expertload ")


@pytest.mark.processes
def test_a_screen_that_knows_few_characters():
    code = (
        "from expertload.cli.screen import console\n"
        "console().print('caf\u00e9 \x1b[31m', markup=False)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == "caf? ?[31m"


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.startswith("expertload ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["lab", "trian"],
        ["lab", "train"],
        ["lab", "train", "digits", "--seed", "-1"],
        ["lab", "train", "digits", "--set", "loss.colour=1"],
        ["lab", "sweep", "digits", "--seeds", "a-b"],
        ["lab", "sweep", "digits", "--seeds", "4-2"],
        ["lab", "sweep", "digits", "--job", "timeout_min=5"],
    ],
)
def test_misuse_has_exit_code_two(arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Error" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lab", "train", "digts"], "did you mean 'digits'"),
        (["lab", "train", "digits", "--set", "training.epochs=0"], "training.epochs"),
        (["lab", "train", "digits", "--loss", "ce+aucoo"], "ce+aucoo"),
        (["lab", "train", "digits", "--set", "data.name=digit"], "did you mean 'digits'"),
        (["lab", "sweep", "digits", "--losses", "ce,ce+aucoo"], "ce+aucoo"),
        (["lab", "sweep", "digits", "--set", "data.name=digit"], "did you mean 'digits'"),
        (["lab", "data", "fetch", "digit"], "did you mean 'digits'"),
    ],
)
def test_errors_are_one_sentence(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_debug_shows_where_an_error_comes_from():
    result = run("--debug", "lab", "train", "digts")
    assert isinstance(result.exception, FileFormatError)


@pytest.mark.processes
def test_ctrl_c_says_how_to_go_on(tmp_path):
    arguments = ["lab", "train", "digits", "--out", tmp_path]
    arguments += ["--set", "training.epochs=100000"]  # it cannot end by itself
    said = tmp_path / "said"
    process = forked.start(forked.run_command, arguments, said)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("*/metrics.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    assert forked.finish([process], 60) == [130]
    assert "run the same command again" in said.read_text()
    assert "Traceback" not in said.read_text()


def test_data_list_and_fetch(tmp_path):
    listed = run("lab", "data", "list", "--data-dir", tmp_path)
    assert listed.exit_code == 0
    lines = listed.output.splitlines()
    assert any(line.startswith("digits ") and " yes " in line for line in lines)
    assert any(line.startswith("cifar100 ") and " no " in line for line in lines)
    fetched = run("lab", "data", "fetch", "digits", "--data-dir", tmp_path)
    assert fetched.exit_code == 0
    assert str(tmp_path) in fetched.output.replace("\n", "")


SMALL = ["--set", "training.epochs=1", "--set", "model.options.width=8"]


@pytest.mark.training
@pytest.mark.filterwarnings("ignore:TemperatureScaling")
def test_train_prints_the_numbers_and_where_they_are(tmp_path):
    arguments = ["lab", "train", "digits", *SMALL, "--out", tmp_path, "--seed", 3]
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert "epoch   1/1" in result.output
    assert "test: AUCOC" in result.output
    (folder,) = tmp_path.iterdir()
    assert str(folder) in result.output.replace("\n", "")
    assert "seed3" in folder.name
    again = run(*arguments)
    assert "test: AUCOC" in again.output
    assert "epoch   1/1" not in again.output
    by_folder = run("lab", "train", folder)
    assert by_folder.exit_code == 0
    assert run("lab", "train", folder, "--loss", "ce").exit_code == 2


@pytest.mark.training
@pytest.mark.filterwarnings("ignore:TemperatureScaling")
def test_a_candidate_can_be_set(tmp_path):
    common = ["lab", "train", "digits", *SMALL, "--out", tmp_path, "--loss", "ce+aucoc"]
    first = run(*common)
    assert "candidates for ce+aucoc; this trains the first" in " ".join(first.output.split())
    chosen = run(*common, "--set", "loss.weight=7.5")
    assert "candidates" not in chosen.output
    assert {path.name.split("-seed")[0] for path in tmp_path.iterdir()} >= {"ce+aucoc-w7.5"}


@pytest.mark.training
@pytest.mark.filterwarnings("ignore:TemperatureScaling", "ignore::DeprecationWarning")
def test_slurm_is_an_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "submitit", None)
    result = run("lab", "sweep", "digits", "--out", tmp_path, "--slurm")
    assert result.exit_code == 1
    assert "pip install 'expertload[slurm]'" in result.stderr


@pytest.mark.processes
def test_a_sweep_with_a_failure_has_exit_code_one(tmp_path, monkeypatch):
    recipe = tmp_path / "diverges.toml"
    recipe.write_text(
        'data.name = "digits"\nmodel.name = "small-cnn"\nlosses.ce = {}\n'
        "training = { epochs = 1, batch_size = 64, learning_rate = 1e30 }\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    arguments = ["--seeds", "0", "--out", tmp_path / "out"]
    result = run("lab", "sweep", recipe, *arguments)
    assert result.exit_code == 1
    assert "1 run is not" in result.output
    assert "Training diverged in epoch 1" in result.output
    assert "train.log" in result.output


@pytest.mark.parametrize(
    ("words", "option", "names"),
    [
        (["evaluate"], "method", METHODS),
        (["evaluate"], "format", FORMATS),
        (["evaluate"], "cluster_promise", get_args(ClusterPromise)),
        (["monitor"], "order", get_args(Order)),
        (["lab", "evaluate"], "calibrator", CALIBRATORS),
        (["lab", "evaluate"], "views", ["auto", *view_names()]),
        (["lab", "compare"], "number", MEASURE_NAMES),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_help_lists_every_name_that_an_option_takes(words, option, names):
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    (found,) = [each for each in command.params if each.name == option]
    assert set(names) <= set(re.findall(r"[\w@]+", found.help))


@pytest.mark.filterwarnings("default")
def test_warnings_of_the_library_are_sentences(monkeypatch, tmp_path):
    """Without the path of a file and a line of source, which say nothing to a user."""

    def shaky(*_):
        warnings.warn("the fit is shaky.", CalibrationWarning, stacklevel=1)

    monkeypatch.setattr("expertload.cli.evaluate.check_models", shaky)
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "none.csv")])
    assert result.stderr.splitlines()[0] == "Warning: the fit is shaky."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target-accuracy", 1.5], "--target-accuracy must be in [0, 1]"),
        (["--promise", "x"], "--promise must name a kind"),
        (["--method", "x"], "--method must be one of"),
        (["--certify-groups"], "(--certify-groups) needs a column of groups"),
    ],
)
def test_errors_name_options_as_they_are_typed(tmp_path, arguments, words):
    file = tmp_path / "x.csv"
    file.write_text("label,p_a,p_b\n" + "a,0.9,0.1\nb,0.3,0.7\n" * 30)
    result = run("evaluate", file, *arguments)
    assert result.exit_code == 1
    assert words in result.stderr
