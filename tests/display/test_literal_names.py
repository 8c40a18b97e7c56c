"""Names are shown as they are: no mathematics between dollar signs, nothing hidden by a _."""

from __future__ import annotations

import io
import re
from html import unescape

import numpy as np
import pytest
from matplotlib import pyplot as plt

from expertload.cases import Cases
from expertload.display import (
    COCComparisonDisplay,
    COCDisplay,
    COCFoldsDisplay,
    OutlierDisplay,
    ReliabilityDisplay,
)

NAMES = [
    "_private",
    "$\\alpha$",
    "a $5 and $6 model",
    "$",
    "$\\nonsense{",
    "_$x_1$",
    "_child0",
    "%",
]


def written(figure) -> list[str]:
    """The texts of a figure as a reader of the drawing sees them."""
    with plt.rc_context({"svg.fonttype": "none"}):
        file = io.StringIO()
        figure.savefig(file, format="svg")
    return [
        unescape(re.sub(r"<[^>]*>", "", text)).strip().lstrip("\u200b")
        for text in re.findall(r"<text[^>]*>(.*?)</text>", file.getvalue(), flags=re.DOTALL)
    ]


def cases(seed=0):
    rng = np.random.default_rng(seed)
    confidence = rng.random(300)
    return rng.random(300) < confidence, confidence


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_in_every_display(name):
    correct, confidence = cases()
    for display in (
        COCDisplay.from_cases(Cases.from_correctness(correct, confidence), name=name),
        ReliabilityDisplay.from_cases(Cases.from_correctness(correct, confidence), name=name),
        OutlierDisplay.from_scores(correct, confidence, name=name),
        COCFoldsDisplay(
            [COCDisplay.from_cases(Cases.from_correctness(*cases(s))) for s in (0, 1)], name=name
        ).plot(),
    ):
        texts = written(display.figure_)
        assert name in texts or any(text.startswith(f"{name}: ") for text in texts), display
        plt.close("all")


def test_all_of_them_together_in_order():
    comparison = COCComparisonDisplay.from_cases(
        {name: Cases.from_correctness(*cases()) for name in NAMES}
    )
    texts = written(comparison.figure_)
    shown = [text.split(": AUCOC")[0] for text in texts if ": AUCOC" in text]
    assert shown == NAMES
    plt.close("all")


def test_a_name_without_numbers_is_shown_and_no_name_is_not():
    correct, confidence = cases()
    curve = COCDisplay.from_cases(Cases.from_correctness(correct, confidence))
    points = {"expert_load": curve.expert_load, "accuracy": curve.accuracy}
    _, ax = plt.subplots()
    COCDisplay(**points).plot(ax)
    assert ax.get_legend() is None
    COCDisplay(**points, name="_child0").plot(ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["\u200b_child0"]
    plt.close("all")


def test_labels_of_a_callers_own_lines_stay_as_matplotlib_has_them():
    _, ax = plt.subplots()
    ax.plot([0, 1], [0.5, 0.5], label=r"$\tau$")
    ax.plot([0, 1], [0.6, 0.6], label="_hidden")
    display = COCDisplay.from_cases(Cases.from_correctness(*cases()), name="_mine", ax=ax)
    texts = written(display.figure_)
    assert "τ" in texts
    assert not any("hidden" in text for text in texts)
    assert any(text.startswith("_mine: AUCOC") for text in texts)
    plt.close("all")
