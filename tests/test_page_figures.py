"""Figures on the pages are those that the benchmarks give: measured again, with the same seeds."""

from __future__ import annotations

import pytest
from benchmarks import certification, monitoring

from tests.pages import ROOT

pytestmark = pytest.mark.simulation


def line_of(page, start):
    """The cells of the line of a table that begins with some words, without their bold type."""
    (line,) = [
        one
        for one in (ROOT / "docs" / page).read_text().splitlines()
        if one.startswith(f"| {start}")
    ]
    return [cell.strip().strip("*") for cell in line.strip("|").split("|")][1:]


@pytest.mark.parametrize(
    ("start", "blocks"),
    [
        ("**restarting bets, for ever**", None),
        ("**restarting bets, 24 blocks**", 24),
        ("bets without restarts", 1),
    ],
)
def test_audits_until_a_fall_is_found(start, blocks):
    columns = (
        "to .90 from the start",
        "to .90 after 1,000 at .97",
        "to .85 from the start",
    )
    for cell, fall in zip(line_of("monitoring.md", start), columns, strict=True):
        alarms = monitoring.ours(blocks)(monitoring.streams(fall, monitoring.ROUNDS))
        _, described = monitoring.described(alarms, monitoring.FALLS[fall][1])
        assert cell.split(" / ") == described.split()


def test_how_much_a_thousand_cases_certify():
    drawn = certification.settings(1000, certification.SIZES[1000])
    methods = ("spending", *certification.RIVALS)
    for cell, method in zip(line_of("certify.md", "1,000 "), methods, strict=True):
        share, beyond = certification._measure(method, 1000, drawn)
        assert cell == f"{100 * share:.0f} % / {beyond:.3f}".replace("0.", "."), method
