"""Two classifiers, their COC curves, and the point at which to run the better one.

Handwritten digits are made hard enough to need experts: three of ten pixels of each scan are lost,
others in every image. Draws the README's figure: ``python examples/two_classifiers.py coc.png``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from expertload import Cases, load_at_accuracy, operating_point
from expertload.display import COCComparisonDisplay
from expertload.metrics import expected_calibration_error
from expertload.significance import aucoc_interval, aucoc_paired_test

TARGET = 0.95


def damaged_digits() -> list[np.ndarray]:
    images, labels = load_digits(return_X_y=True)
    kept = np.random.default_rng(0).random(images.shape) < 0.7
    return train_test_split(images * kept, labels, test_size=0.5, random_state=0, stratify=labels)


def main() -> None:
    x_train, x_test, y_train, y_test = damaged_digits()
    models = {
        "random forest": RandomForestClassifier(300, random_state=0, n_jobs=2),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(C=0.1)),
    }
    print(f"Training two classifiers on {len(y_train)} damaged digits, testing on {len(y_test)}\n")
    proba = {
        name: model.fit(x_train, y_train).predict_proba(x_test) for name, model in models.items()
    }

    print(f"{'':<21}{'accuracy':>9}{'AUCOC':>9}{'95 % interval':>18}{'ECE':>8}{'load at 95 %':>15}")
    cases = {name: Cases.from_predictions(y_test, p) for name, p in proba.items()}
    for name, p in proba.items():
        area = aucoc_interval(cases[name])
        print(
            f"{name:<21}{(p.argmax(axis=1) == y_test).mean():>9.1%}{area.estimate:>9.4f}"
            f"{f'{area.low:.4f} to {area.high:.4f}':>18}"
            f"{expected_calibration_error(y_test, p):>8.3f}"
            f"{load_at_accuracy(y_test, p, target_accuracy=TARGET):>15.1%}"
        )
    forest, _ = proba.values()
    print(f"\nforest against regression: {aucoc_paired_test(*cases.values())}")

    point = operating_point.choose(Cases.from_predictions(y_test, forest), target_accuracy=TARGET)
    print(f"\n{point}")
    print(
        f"Of {point.n_errors + point.n_errors_spared:g} errors the forest would make alone, "
        f"{point.n_errors_spared:g} go to an expert instead."
    )

    path = Path(sys.argv[1] if len(sys.argv) > 1 else "two_classifiers.png")
    display = COCComparisonDisplay.from_predictions(
        y_test, proba, operating_points={"random forest": [point]}
    )
    display.figure_.savefig(path, dpi=150)
    print(f"\nThe curves are in {path.resolve()}")


if __name__ == "__main__":
    sys.exit(main())
