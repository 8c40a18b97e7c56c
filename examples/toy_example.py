"""The paper's toy example: equal accuracy, ECE and KS, but one model is the better colleague.

Two models answer five cases with the same five confidences and are right three times each. No
calibration error distinguishes them. The COC curve does: the first model's errors are among its
less confident answers, so delegating those helps; the second is wrong where it is most confident.

    python examples/toy_example.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

from expertload import Cases, aucoc_score
from expertload.display import COCComparisonDisplay
from expertload.metrics import expected_calibration_error, kolmogorov_smirnov_error

CONFIDENCE = np.array([0.45, 0.55, 0.65, 0.70, 0.75])
CORRECT = {"model 1": np.array([0, 1, 0, 1, 1]), "model 2": np.array([1, 0, 1, 1, 0])}
N_BINS = 5
RIGHT, WRONG = "#009E73", "#D55E00"


def numbers(correct):
    """Return the four numbers that compare the models."""
    return {
        "accuracy": float(correct.mean()),
        "ECE": expected_calibration_error(
            Cases.from_correctness(correct, CONFIDENCE), n_bins=N_BINS, strategy="width"
        ),
        "KS": kolmogorov_smirnov_error(Cases.from_correctness(correct, CONFIDENCE)),
        "AUCOC": aucoc_score(Cases.from_correctness(correct, CONFIDENCE)),
    }


def draw_confidences(ax):
    """Draw each model's answers along the confidence axis, with the bins of the ECE."""
    for edge in np.linspace(0, 1, N_BINS + 1):
        ax.axvline(edge, color="#AAAAAA", linestyle=":", linewidth=1)
    for row, (name, correct) in enumerate(CORRECT.items()):
        ax.axhline(-row, color="#DDDDDD", linewidth=1, zorder=0)
        for right, marker, colour in ((1, "o", RIGHT), (0, "X", WRONG)):
            shown = CONFIDENCE[correct == right]
            ax.plot(shown, np.full(len(shown), -row), marker, color=colour, markersize=9)
        found = numbers(correct)
        text = ", ".join(f"{key} {found[key]:.2f}" for key in ("accuracy", "ECE", "KS"))
        plain = {"facecolor": "white", "edgecolor": "none", "pad": 2}
        ax.text(0.02, -row + 0.16, f"{name}:  {text}", fontsize=10, bbox=plain)
    ax.plot([], [], "o", color=RIGHT, label="right")
    ax.plot([], [], "X", color=WRONG, label="wrong")
    ax.legend(loc="lower left", fontsize=9, ncols=2, frameon=False)
    ax.set(xlim=(0, 1), ylim=(-1.6, 0.6), xlabel="Confidence", yticks=[])
    ax.spines[["top", "left", "right"]].set_visible(False)
    ax.set_title("Nothing tells these two apart ...", loc="left", fontsize=11)


def draw(path):
    """Save the picture."""
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(ncols=2, figsize=(10.5, 4.2), layout="constrained")
    draw_confidences(left)
    models = {name: Cases.from_correctness(right, CONFIDENCE) for name, right in CORRECT.items()}
    COCComparisonDisplay.from_cases(models, ax=right, band=False)
    right.set_title("... except the COC curve", loc="left", fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "toy_example.png")
    mpl.use("Agg")  # draws without a display
    for name, correct in CORRECT.items():
        print(name, " ".join(f"{key} {value:.3f}" for key, value in numbers(correct).items()))
    draw(path)
    print(f"Saved {path.resolve()}")


if __name__ == "__main__":
    main()
