import pytest
from matplotlib import pyplot as plt

from expertload._format import percent
from expertload.display._draw import PALETTE, _tick, line_style, quiet, with_name


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.29, "29 %"),
        (0.2871, "28.7 %"),
        (0.99996, "99.996 %"),
        (0.0001, "0.01 %"),
        (1.0, "100 %"),
        (1 - 1e-15, "100 %"),
    ],
)
def test_percent_never_rounds_to_a_promise(share, text):
    assert percent(share) == text


def test_ticks_have_no_needless_decimals():
    assert _tick(0.95) == "95\N{NO-BREAK SPACE}%"
    assert _tick(0.975, 3) == "97.5\N{NO-BREAK SPACE}%"
    assert _tick(0.1 + 0.2) == "30\N{NO-BREAK SPACE}%"


def test_percent_axis_labels_the_axis_named():
    _, ax = plt.subplots()
    quiet(ax, "x")
    assert ax.xaxis.get_major_formatter()(0.5) == "50\N{NO-BREAK SPACE}%"
    assert "%" not in ax.yaxis.get_major_formatter().format_data(0.5)


def test_styles_differ_beyond_the_palette():
    styles = [tuple(line_style(k).items()) for k in range(3 * len(PALETTE))]
    assert len(set(styles)) == len(styles)


def test_names_in_legends():
    assert with_name(None, "AUCOC 0.9") == "AUCOC 0.9"
    assert with_name("CE", "") == "CE"
    assert with_name("CE", "AUCOC 0.9") == "CE: AUCOC 0.9"
    wrapped = with_name("a very long name " * 5, "AUCOC 0.9")
    assert wrapped.endswith("\nAUCOC 0.9")
    assert max(len(line) for line in wrapped.split("\n")) <= 48
    assert not with_name("a very long name " * 5, "").endswith("\n")
