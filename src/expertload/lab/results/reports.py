"""Reports and policies from runs: each run becomes an `Evaluation`.

Both use only the test split. It was not used for training, and checkpoint and calibration were
chosen on validation data, so a threshold that is certified on it keeps its guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from expertload._files import explained_write_errors
from expertload._typing import FloatArray, IntArray
from expertload.evaluation import Evaluation, evaluate_predictions
from expertload.exceptions import InsufficientDataError
from expertload.lab.results.evaluate import names_of, targets_of
from expertload.lab.runs.finished import Runs, read_runs
from expertload.report import build_report

__all__ = ["evaluate_test_cases", "save_policy", "write_report"]

NOTE = (
    "The cases are the test split. It was not used for training, and the checkpoint was chosen on "
    "validation data."
)


def evaluate_test_cases(
    folders: Runs,
    *,
    target_accuracies: Sequence[float] | None = None,
    confidence_level: float = 0.95,
) -> dict[str, Evaluation]:
    """Evaluate runs on their test cases, as `expertload evaluate` does; returns them by name.

    Parameters
    ----------
    folders : path, FinishedRun, or sequence of these
        Folders of finished runs of the same data. Several are also evaluated together: the last
        entry, ``"ensemble"``, predicts the mean of their probabilities.
    target_accuracies : sequence of float, optional
        By default those of the runs' settings. An operating point is certified for the first.
    confidence_level : float, default=0.95
        The confidence level of the intervals and of the guarantee.

    Returns
    -------
    dict of Evaluation

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab import RunConfig, RunFolder
    >>> from expertload.lab.results.reports import evaluate_test_cases
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 500)
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "small-cnn"}, "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> with TemporaryDirectory() as place:
    ...     run = RunFolder(Path(place) / "ce")
    ...     run.create(config)
    ...     for split in ("validation", "test"):
    ...         run.write_logits(split, rng.normal(size=(500, 3)) + 4 * np.eye(3)[labels], labels)
    ...     run.write_json("results.json", {})
    ...     evaluation = evaluate_test_cases(run.path)["ce"]
    >>> evaluation.is_certified
    True
    """
    runs = read_runs(folders)
    targets = targets_of(runs, target_accuracies)
    models = dict(zip(names_of(runs), (run.test_proba for run in runs), strict=True))
    if len(runs) > 1:
        models["ensemble"] = np.mean(list(models.values()), axis=0)
    labels = runs[0].test[1]
    return {
        name: _evaluate(labels, proba, targets, confidence_level) for name, proba in models.items()
    }


def _evaluate(
    labels: IntArray, proba: FloatArray, targets: Sequence[float], level: float
) -> Evaluation:
    return evaluate_predictions(
        labels,
        proba,
        labels=np.arange(proba.shape[1]),
        target_accuracy=targets,
        confidence_level=level,
    )


def write_report(
    models: Mapping[str, Evaluation], path: Path, *, title: str, note: str = NOTE
) -> None:
    """Write a report about runs, in which the others are compared with the first.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.evaluation import evaluate_predictions
    >>> from expertload.lab.results.reports import write_report
    >>> found = evaluate_predictions([0, 1, 1, 0], [0.1, 0.8, 0.7, 0.4])
    >>> with TemporaryDirectory() as place:
    ...     write_report({"ce": found}, Path(place) / "report.html", title="Digits")
    ...     (Path(place) / "report.html").exists()
    True
    """
    with explained_write_errors(path):
        build_report(models, path=path, title=title, note=note)


def save_policy(models: Mapping[str, Evaluation], path: Path) -> str:
    """Save the certified operating point of the last model, and return its name.

    For several runs, this is their ensemble. Raises if nothing could be certified.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.evaluation import evaluate_predictions
    >>> from expertload.exceptions import InsufficientDataError
    >>> from expertload.lab.results.reports import save_policy
    >>> found = evaluate_predictions([0, 1, 1, 0], [0.1, 0.8, 0.7, 0.4])
    >>> try:
    ...     save_policy({"ce": found}, Path("policy.json"))
    ... except InsufficientDataError as error:
    ...     print(str(error)[:20])
    No policy was saved.
    """
    name, found = list(models.items())[-1]
    if found.certification is None or not found.is_certified:
        raise InsufficientDataError(f"No policy was saved. {found.conditions}")
    with explained_write_errors(path):
        found.certification.save(path, model_name=name)
    return name
