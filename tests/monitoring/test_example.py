"""The script that draws the picture of the docs."""

from __future__ import annotations

from pathlib import Path

from examples.watched_promise import main, watch
from matplotlib import image, pyplot

PICTURE = Path(__file__).parents[2] / "docs/images/evidence.png"


def test_the_picture_of_the_docs_is_that_of_the_script(tmp_path, capsys):
    main(tmp_path / "evidence.png")
    pyplot.close("all")
    assert "Refuted" in capsys.readouterr().out
    drawn, kept = image.imread(tmp_path / "evidence.png"), image.imread(PICTURE)
    assert drawn.shape == kept.shape


def test_the_fall_is_found_after_it_happened():
    assert 1000 < watch().refuted_at < 1500
