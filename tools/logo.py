"""The logo: a COC curve, the filled area below it, and an operating point.

    python -m tools.logo      writes docs/_static/logo.svg and docs/_static/favicon.svg

The curve is accuracy 1 - 0.9 exp(-3.2 load) at expert loads from 0 to 1.
"""

from __future__ import annotations

from math import exp
from pathlib import Path

__all__ = ["draw", "main"]

FOLDER = Path(__file__).parents[1] / "docs" / "_static"
BLUE, ORANGE = "#2166ac", "#e08214"
SIZE, MARGIN, POINT = 64, 8, 0.35


def _place(load: float) -> tuple[float, float]:
    """Return the point of the curve at an expert load, in pixels from the upper left corner."""
    side = SIZE - 2 * MARGIN
    accuracy = 1 - 0.9 * exp(-3.2 * load)
    return MARGIN + side * load, SIZE - MARGIN - side * accuracy


def draw() -> str:
    """Return the logo as SVG."""
    places = [_place(step / 40) for step in range(41)]
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    low, right = SIZE - MARGIN, SIZE - MARGIN
    x, y = _place(POINT)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}">
<polygon points="{MARGIN},{low} {curve} {right},{low}" fill="{BLUE}" fill-opacity="0.25"/>
<polyline points="{curve}" fill="none" stroke="{BLUE}" stroke-width="6" stroke-linecap="round"/>
<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="{ORANGE}" stroke="#ffffff" stroke-width="3"/>
</svg>
"""


def main() -> None:
    """Write both files."""
    FOLDER.mkdir(exist_ok=True)
    for name in ("logo.svg", "favicon.svg"):
        (FOLDER / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
