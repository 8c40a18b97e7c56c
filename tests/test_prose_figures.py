"""Numbers in the prose of the evidence pages stand in a table of the page, or are computed here."""

from __future__ import annotations

import re
from statistics import fmean

import pytest
from tools.evidence.experiments import chosen_rows
from tools.evidence.pages import BLOCK, PAGES

from tests.pages import ROOT

# Settings of experiments, and numbers that another test computes.
GIVEN = {
    "README.md": {"2.0"},  # a licence
    "docs/claim.md": {"0.94", "0.2", "0.008", "0.04", "0.08"},  # weights of the network, the loss
    "docs/loop.md": {"5.01", "0.1"},  # test_switches simulates the first; a weight of a loss
    "docs/reproduction.md": {"0.3", "1.4", "1.9", "2.5", "0.6", "0.8"},  # below
    "docs/team.md": {"0.1", "0.3", "0.35"},  # rounded from the tables
}
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.\d+(?![.\d])")


def prose_of(page):
    """The text of a page without tables, code and results."""
    text = re.sub(r"```.*?```|`[^`]*`", "", BLOCK.sub("", page), flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not line.startswith("|"))


@pytest.mark.parametrize("page", PAGES)
def test_numbers_in_the_prose_stand_in_a_table_of_the_page(page):
    """README quotes the other pages, so it may take numbers from the tables of any."""
    text = (ROOT / page).read_text(encoding="utf-8")
    sources = [page] if page.startswith("docs/") else PAGES
    texts = [(ROOT / source).read_text(encoding="utf-8") for source in sources]
    tables = " ".join(match["old"] for source in texts for match in BLOCK.finditer(source))
    shown = {number.lstrip("+-") for number in NUMBER.findall(tables)}
    told = {number.lstrip("+-") for number in NUMBER.findall(prose_of(text))}
    assert told - shown <= GIVEN.get(page, set())


def test_what_an_ensemble_of_seeds_gains():
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    (told,) = re.findall(
        r"The ensemble of cross-entropy is (.*?): more than", page, flags=re.DOTALL
    )
    assert [float(number) for number in re.findall(r"\d\.\d", told)] == [
        pytest.approx(_gain_of_an_ensemble(name), abs=0.05)
        for name in ("retinamnist-cpu", "dermamnist-cpu", "cifar100-cpu", "cifar100-lt-100-cpu")
    ]


def _gain_of_an_ensemble(name):
    areas = [row for row in chosen_rows(name)["ce"] if (row.split, row.metric) == ("test", "aucoc")]
    members = [row.value for row in areas if row.n_runs == 1]
    (ensemble,) = (row.value for row in areas if row.n_runs == len(members))
    return 100 * (ensemble - fmean(members))


def test_losses_ahead_of_cross_entropy_on_retinamnist():
    """Two of ten are more than a tenth of a point ahead, by 0.6 and 0.8."""
    means = {
        loss: fmean(
            row.value for row in rows if (row.split, row.metric, row.n_runs) == ("test", "aucoc", 1)
        )
        for loss, rows in chosen_rows("retinamnist-cpu").items()
    }
    ahead = [100 * (mean - means["ce"]) for mean in means.values()]
    assert sorted(round(gain, 1) for gain in ahead if gain > 0.1) == [0.6, 0.8]
    assert len(ahead) == 11
