"""Where commands write, and what becomes of them when that fails: a sentence and an exit code."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.table import Table
from typer.testing import CliRunner

from expertload import Cases
from expertload.cli.app import app
from expertload.cli.files import check_output
from expertload.cli.screen import console
from expertload.exceptions import FileWriteError
from expertload.operating_point import choose, load_operating_point

SRC = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def files(tmp_path):
    labels, proba = ["ä", "b"] * 40, [[0.9, 0.1], [0.2, 0.8]] * 40
    choose(Cases.from_predictions(labels, proba, labels=["ä", "b"]), target_accuracy=0.9).save(
        tmp_path / "policy.json"
    )
    rows = "".join(f"{name},{p},{q}\n" for name, (p, q) in zip(labels, proba, strict=True))
    (tmp_path / "new.csv").write_text("label,p_ä,p_b\n" + rows, encoding="utf-8")
    return tmp_path


def expertload(*arguments, folder, stdin=b"", environment=None, **options):
    return subprocess.run(
        [sys.executable, "-m", "expertload", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1", **(environment or {})},
        input=stdin,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
        **({"stdout": subprocess.PIPE} | options),
    )


def make(kind, path):
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        (path.parent / "target").write_text("old")
        path.symlink_to(path.parent / "target")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "socket"])
def test_what_is_no_regular_file_is_not_replaced(tmp_path, monkeypatch, kind, files):
    monkeypatch.chdir(tmp_path)
    make(kind, tmp_path / "x.html")
    with pytest.raises(FileWriteError, match=f"could not be written: it is a {kind}"):
        check_output(tmp_path / "x.html")
    for option in ("--out", "--save-policy"):
        done = CliRunner().invoke(app, ["evaluate", str(files / "new.csv"), option, "x.html"])
        assert done.exit_code == 1
        assert f"it is a {kind}" in done.stderr
    assert not (tmp_path / "x.html").is_file() or (tmp_path / "x.html").is_symlink()


def test_devices_are_not_replaced():
    with pytest.raises(FileWriteError, match="it is a device"):
        check_output(Path("/dev/null"))


def test_a_page_is_not_called_a_picture(files):
    run = ["evaluate", str(files / "new.csv"), "--out", str(files / "x.pdf")]
    done = CliRunner().invoke(app, run)
    assert done.exit_code == 1
    assert ".html" in done.stderr
    assert not (files / "x.pdf").exists()


@pytest.mark.processes
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "command", [["decide", "policy.json"], ["evaluate"], ["evaluate", "--json"]]
)
def test_a_full_standard_output_is_a_sentence(files, command):
    with Path("/dev/full").open("wb") as full:
        done = expertload(*command, "new.csv", folder=files, stdout=full)
    said = done.stderr.decode()
    assert done.returncode == 1, said
    assert "Standard output could not be written completely: No space left on device." in said
    assert "Traceback" not in said
    assert "Exception" not in said


@pytest.mark.processes
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_files_are_written_even_if_nobody_reads_the_screen(files, form):
    made = ["--target-accuracy", "0.9", "--save-policy", "kept.json", "--out", "kept.html"]
    with Path("/dev/full").open("wb") as full:
        done = expertload("evaluate", "new.csv", *made, *form, folder=files, stdout=full)
    assert done.returncode == 1
    assert load_operating_point(files / "kept.json").threshold == 0.8
    assert "</html>" in (files / "kept.html").read_text(encoding="utf-8")


def test_the_evaluation_is_shown_even_if_no_policy_can_be_saved(files):
    run = ["evaluate", str(files / "new.csv"), "--target-accuracy", "0.999"]
    done = CliRunner().invoke(app, [*run, "--save-policy", str(files / "kept.json")])
    assert done.exit_code == 1
    assert "AUCOC" in done.stdout
    assert "No policy was saved" in done.stderr
    assert not (files / "kept.json").exists()


@pytest.mark.processes
def test_a_closed_pipe_is_a_sentence(files):
    (files / "many.csv").write_text("p_ä,p_b\n" + "0.9,0.1\n" * 300_000, encoding="utf-8")
    command = f"{sys.executable} -m expertload decide policy.json many.csv | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=files,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "row,accepted,label,confidence\n"
    assert done.returncode == 1
    assert "Standard output could not be written completely: Broken pipe." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.processes
def test_a_closed_standard_output_is_a_sentence(files):
    command = f"exec {sys.executable} -m expertload decide policy.json new.csv >&-"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=files,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Standard output is closed")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_decisions_are_utf8_in_any_locale(files):
    for environment in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}):
        done = expertload("decide", "policy.json", "new.csv", folder=files, environment=environment)
        assert done.returncode == 0, done.stderr
        assert "1,true,ä,0.9\n" in done.stdout.decode("utf-8")
        done = expertload("evaluate", "new.csv", folder=files, environment=environment)
        assert done.returncode == 0, done.stderr


@pytest.mark.processes
def test_from_standard_input_to_standard_output(files):
    content = (files / "new.csv").read_bytes()
    done = expertload("decide", "policy.json", "-", "--out", "-", folder=files, stdin=content)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().startswith("row,accepted,label,confidence\n1,true,ä,0.9\n")
    assert not (files / "-").exists()
    done = expertload("evaluate", "-", folder=files, stdin=content)
    assert done.returncode == 0, done.stderr


def test_rows_to_experts_say_why(files):
    (files / "new.csv").write_text("p_ä,p_b\n0.9,0.1\n,0.5\n", encoding="utf-8")
    run = ["decide", str(files / "policy.json"), str(files / "new.csv")]
    done = CliRunner().invoke(app, [*run, "--invalid", "delegate"])
    assert done.exit_code == 0
    assert "2,false,,,p_ä is missing or not a number" in done.stdout
    assert "1 of those to experts could not be decided" in done.stderr
    assert CliRunner().invoke(app, run).exit_code == 1
    assert CliRunner().invoke(app, [*run, "--invalid", "accept"]).exit_code == 2


@pytest.mark.slow
def test_bytes_that_are_no_text_in_names(files):
    """As names of files hold them, and options in a locale of other letters."""
    rows = np.arange(80)
    proba = np.where(rows % 2, 0.9, 0.2)
    name = os.fsdecode(b"m\xff.npz")
    np.savez(files / name, y_true=rows % 2, y_proba=np.column_stack([1 - proba, proba]))
    runner, title = CliRunner(), os.fsdecode(b"\xff title")
    page = runner.invoke(app, ["evaluate", str(files / name), "--out", str(files / "r.html")])
    assert page.exit_code == 0, page.output
    for command, out in (("evaluate", "r.html"), ("plot", "p.png")):
        done = runner.invoke(
            app, [command, str(files / name), "--out", str(files / out), "--title", title]
        )
        assert done.exit_code == 0, done.output
        assert (files / out).exists()


def test_names_with_colons_and_brackets_stay_as_they_are(capsys):
    """`corrupted:fog:3` names a data set, `scans [old]` a folder; rich has other uses for both."""
    table = Table(title="corrupted:fog:3")
    table.add_column(":cat: [old] [/red]")
    console().print(table)
    console(stderr=True).print("corrupted:snow:3 [old] [/red]")
    said = capsys.readouterr()
    assert "corrupted:fog:3" in said.out
    assert ":cat: [old] [/red]" in said.out
    assert "corrupted:snow:3 [old] [/red]" in said.err
