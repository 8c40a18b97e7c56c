from __future__ import annotations

import pytest
from typer.testing import CliRunner

from expertload.cli.app import app
from tests.io.files import predictions, write


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exit_code == code, result.output
        if code == 1:
            assert len(result.stderr.strip().splitlines()) == 1
            assert "Traceback" not in result.output
        return result

    return invoke


@pytest.fixture
def table():
    return predictions(2000)


@pytest.fixture
def file(tmp_path, table):
    write(tmp_path / "model.csv", table)
    return tmp_path / "model.csv"
