"""The paper's toy example: equal accuracy, ECE and KS, different AUCOC; and its picture."""

import os
import subprocess
import sys
from math import log
from pathlib import Path

import numpy as np
import pytest

from expertload import Cases, aucoc_score
from expertload.metrics import expected_calibration_error, kolmogorov_smirnov_error

ROOT = Path(__file__).resolve().parents[1]
CONFIDENCE = [0.45, 0.55, 0.65, 0.70, 0.75]
FIRST, SECOND = [0, 1, 0, 1, 1], [1, 0, 1, 1, 0]


@pytest.mark.parametrize("correct", [FIRST, SECOND])
def test_accuracy_and_calibration_are_equal(correct):
    assert np.mean(correct) == 3 / 5
    ece = expected_calibration_error(
        Cases.from_correctness(correct, CONFIDENCE), n_bins=5, strategy="width"
    )
    assert ece == pytest.approx(0.02)
    ks = kolmogorov_smirnov_error(Cases.from_correctness(correct, CONFIDENCE))
    assert ks == pytest.approx(0.13)


def test_aucoc_is_not():
    def weight(rank):
        """How much the case at a rank adds to the area: the integral of 1 / n_accepted."""

        def q(u):
            return u + (1 - u) * log(1 - u) if u < 1 else 1.0

        return q(rank / 5) - q((rank - 1) / 5)

    for correct in (FIRST, SECOND):
        by_hand = sum(weight(rank) for rank, right in enumerate(correct, start=1) if right)
        assert aucoc_score(Cases.from_correctness(correct, CONFIDENCE)) == pytest.approx(by_hand)
    first, second = (aucoc_score(Cases.from_correctness(c, CONFIDENCE)) for c in (FIRST, SECOND))
    assert (round(first, 3), round(second, 3)) == (0.839, 0.406)


@pytest.mark.processes
@pytest.mark.parametrize("arguments", [[], ["here.png"]])
def test_the_example_draws_its_picture(arguments, tmp_path):
    pytest.importorskip("matplotlib")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    script = [sys.executable, str(ROOT / "examples" / "toy_example.py"), *arguments]
    run = subprocess.run(
        script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    picture = tmp_path / (arguments[0] if arguments else "toy_example.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in run.stdout
    assert "accuracy 0.600 ECE 0.020 KS 0.130 AUCOC 0.839" in run.stdout
    assert "accuracy 0.600 ECE 0.020 KS 0.130 AUCOC 0.406" in run.stdout
