"""Numbers in the prose of the evidence pages stand in a table of the page, or are computed here."""

from __future__ import annotations

import json
import re
from statistics import fmean

import pytest
from tools.evidence.experiments import by_seed, chosen_rows, paired
from tools.evidence.pages import BLOCK, PAGES
from tools.evidence.settle import ARMS
from tools.evidence.strong import RAW, THE_PAPERS_GAIN, judged, strong_tuning

from tests.conftest import DATA
from tests.pages import ROOT

# Settings of experiments, and numbers that another test computes.
GIVEN = {
    "README.md": {"2.0"},  # a licence
    "docs/claim.md": {"0.94", "0.2", "0.008", "0.04", "0.08"},  # weights of the network, the loss
    "docs/loop.md": {"5.01", "0.1"},  # test_switches simulates the first; a weight of a loss
    "docs/reproduction.md": {"0.0001", "0.9", "0.3", "1.4", "1.9", "2.5", "0.6", "0.8"},  # below
    "docs/team.md": {"0.1", "0.3", "0.35"},  # rounded from the tables
}
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.\d+(?![.\d])")


def prose_of(page):
    """The text of a page without code and without the tables made from results."""
    return re.sub(r"```.*?```|`[^`]*`", "", BLOCK.sub("", page), flags=re.DOTALL)


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


# ------------------------------------------------------------------ the strong network


def change_of(arm, *, split=RAW):
    own, ce = (by_seed(judged(arm)[loss], split=split) for loss in ("ce+aucoc", "ce"))
    return paired(own, ce)


def words_of(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_the_strong_network_in_the_readme():
    change = change_of("usual")
    mean, low, high = (f"{100 * value:+.2f}" for value in change[:3])
    assert f"({mean} points of AUCOC on a strong network, {low} to {high})" in words_of("README.md")


@pytest.mark.parametrize("arm", ARMS)
def test_sentences_that_hold_while_no_gain_is_shown(arm):
    """If this fails, every sentence below says something else, and so do those around it."""
    change = change_of(arm)
    assert change.low <= 0
    assert change.high < THE_PAPERS_GAIN
    assert change_of(arm, split="test").low <= 0
    for page, sentence in (
        ("README.md", "The paper's loss alone gains nothing that our seeds can show"),
        ("docs/claim.md", "**Try AUCOCLoss after that**"),
        ("docs/learn/lowering_the_load.md", "[no gain is shown](../claim.md) on a strong network"),
        ("docs/lower_load.md", "On our networks its loss [hardly does](claim.md)."),
        ("docs/reproduction.md", "[other networks](claim.md) show no gain that holds"),
    ):
        assert sentence in words_of(page)


def test_the_authors_settings_end_lower_whatever_the_loss():
    usual, authors = (judged(arm) for arm in ARMS)
    best = max(max(by_seed(rows, split=RAW).values()) for rows in authors.values())
    assert best < min(by_seed(usual["ce"], split=RAW).values())
    assert "end lower before any loss is compared" in words_of("docs/claim.md")


def test_what_tuning_says():
    """The two best weights are a tenth of a point apart, and the largest is the worst."""
    lines = [line.split("|") for line in strong_tuning().splitlines()[2:]]
    for arm in ("usual", "authors'"):
        scores = [float(line[3]) for line in lines if line[1].strip() == arm]
        first, second, *_ = sorted(scores, reverse=True)
        assert first - second == pytest.approx(0.1, abs=0.05)
        assert scores[-1] == min(scores)


def test_the_doubtful_published_figures():
    published = json.loads((DATA / "published_results.json").read_text(encoding="utf-8"))
    noise, every, svhn = (
        published[f"cifar100-vs-{name}"] for name in ("cifar100c-gaussian", "cifar100c-all", "svhn")
    )
    for score in ("maxlogit", "energy"):
        assert all(svhn[loss][score] == every[loss][score] for loss in svhn)
    gaps = {loss: abs(row["maxlogit"] - row["energy"]) for loss, row in noise.items()}
    assert gaps.pop("ce") > 8
    assert max(gaps.values()) < 1.5
    assert noise["ce"]["energy"] == every["ce"]["msp"] == 66.18
    assert published["cifar100/wrn-28-10"]["ce"]["accuracy"] == 75.71
