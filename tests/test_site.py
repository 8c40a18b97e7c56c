"""What the site is built with: the logo, links of names, nothing from the network."""

from __future__ import annotations

import importlib
import sys

import pytest
from tools import logo

from tests.pages import ROOT


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    before = set(sys.modules)
    yield
    for name in ("api_pages", "offline", "plain_names"):
        if name not in before:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["logo.svg", "favicon.svg"])
def test_the_logo_is_what_its_script_draws(name):
    assert (ROOT / "docs" / "_static" / name).read_text() == logo.draw()


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', True),
        ('<img alt="" src="//example.org/a.png">', True),
        ('<link rel="stylesheet" href="https://example.org/a.css">', True),
        ('@import url("https://example.org/a.css");', True),
        ('<script src="_static/a.js"></script><a href="https://example.org">x</a>', False),
    ],
)
def test_what_comes_from_the_network_is_found(text, loads):
    assert bool(importlib.import_module("offline").from_the_network(text)) == loads


@pytest.mark.parametrize(
    ("text", "home"),
    [
        ("certify", "expertload.operating_point.certify"),
        ("expertload.certify", "expertload.operating_point.certify"),
        ("operating_point.certify()", "expertload.operating_point.certify"),
        ("AUCOCLoss", "expertload.losses.AUCOCLoss"),
        ("expertload.scores", "expertload.scores"),
        ("threshold", None),
        ("numpy.mean", None),
    ],
)
def test_names_lead_to_their_one_page(text, home):
    assert importlib.import_module("plain_names").home_of(text, None) == home
