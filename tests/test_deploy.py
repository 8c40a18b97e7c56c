"""The files of `deploy/`: what can be checked without a container engine is, the rest skips."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from expertload.cli.app import app

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
STEP = re.compile(r"^(FROM|RUN|COPY|USER|ENTRYPOINT|CMD|ENV|WORKDIR|HEALTHCHECK) (.*)$", re.M)


def stages():
    """The steps of each stage of the container file: the instruction and its argument."""
    found = []
    for name, argument in STEP.findall((DEPLOY / "Containerfile").read_text()):
        if name == "FROM":
            found.append([])
        found[-1].append((name, argument))
    return found


def listed(stage, name):
    return [argument for each, argument in stage if each == name]


def check_options(words):
    """Refuse options that the command does not have."""
    options = [word for word in words if word.startswith("--")]
    helped = CliRunner().invoke(app, [*words[: words.index("serve") + 1], "--help"])
    assert helped.exit_code == 0, helped.output
    assert all(re.search(rf"{option}\b", helped.output) for option in options)


def test_the_last_stage_is_small_and_not_root():
    build, last = stages()
    assert listed(build, "FROM")[0].endswith(" AS build")
    assert listed(last, "COPY") == ["--from=build /opt/expertload /opt/expertload"]
    assert not re.search(r"apt|gcc|build-essential|pip", " ".join(listed(last, "RUN")))
    (user,) = listed(last, "USER")
    assert int(user) > 0
    assert f"--uid {user} " in listed(last, "RUN")[0]
    names = [name for name, _ in last]
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_the_container_starts_a_command_that_there_is():
    _, last = stages()
    entry, started = (json.loads(listed(last, name)[0]) for name in ("ENTRYPOINT", "CMD"))
    assert entry[0] == "expertload"
    check_options([*entry[1:], *started])


def test_only_what_the_image_needs_is_sent_to_the_engine():
    """Each source of a COPY is there, and is not ignored."""
    build, _ = stages()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    for argument in listed(build, "COPY"):
        for source in argument.split()[:-1]:
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored


@pytest.mark.slow
@pytest.mark.processes
def test_the_steps_run_as_a_script_in_an_empty_folder(tmp_path):
    if "EXPERTLOAD_TEST_BUILD" not in os.environ:
        pytest.skip("installs 30 packages from an index (EXPERTLOAD_TEST_BUILD=1 runs it)")
    build, _ = stages()
    for argument in listed(build, "COPY"):
        *sources, target = argument.split()
        for source in sources:
            place = tmp_path / "build" / target / ("" if target != "./" else source)
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, place)
    alone = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for step in listed(build, "RUN"):
        here = step.replace("/opt/expertload", str(tmp_path / "venv"))
        here = re.sub(r"^python ", f"{sys.executable} ", here)
        done = subprocess.run(here, shell=True, cwd=tmp_path / "build", env=alone)
        assert done.returncode == 0, step
    program = tmp_path / "venv" / "bin" / "expertload"
    shutil.rmtree(tmp_path / "build")  # the second stage has only the environment
    desk = ["desk", "token", "add", "scanner", "--role", "api", "--data", tmp_path / "desk"]
    made = subprocess.run([program, *desk], capture_output=True, text=True, env=alone)
    assert made.stdout.startswith("eld_"), made.stderr


def test_compose_publishes_only_the_proxy():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert "password" not in {*services["database"]["environment"]}
    for name in ("database", "desk"):
        written = json.dumps(services[name]["environment"])
        assert "${POSTGRES_PASSWORD:?" in written  # there is no default
    assert (DEPLOY / services["desk"]["build"]["context"] / "pyproject.toml").exists()
    assert (ROOT / services["desk"]["build"]["dockerfile"]).exists()
    check_options(["desk", *services["desk"]["command"]])


def test_compose_reads_its_file():
    program = shutil.which("docker")
    if program is None or subprocess.run([program, "compose", "version"]).returncode:
        pytest.skip("docker compose is not installed")
    known = {**os.environ, "POSTGRES_PASSWORD": "x", "DESK_HOST": "desk.test"}
    words = [program, "compose", "-f", DEPLOY / "compose.yaml", "config", "--quiet"]
    assert subprocess.run(words, env=known).returncode == 0


def test_systemd_accepts_the_unit(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    unit = (DEPLOY / "expertload-desk.service").read_text()
    (started,) = re.findall(r"^ExecStart=(.*)$", unit, re.M)
    check_options(started.split()[1:])
    # It checks that the program exists, which is not installed there on every machine.
    here = tmp_path / "expertload-desk.service"
    here.write_text(unit.replace(started.split()[0], sys.executable))
    done = subprocess.run([program, "verify", here], capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "expertload-desk" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_the_proxy_passes_on_no_name_that_a_browser_made_up():
    text = (DEPLOY / "Caddyfile").read_text()
    for header in ("X-Remote-User", "X-Desk-Proxy-Secret"):
        assert f"header_up -{header}" in text
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("caddy is not installed")
    known = {**os.environ, "DESK_HOST": "desk.test"}
    words = [program, "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile"]
    assert subprocess.run(words, env=known).returncode == 0
