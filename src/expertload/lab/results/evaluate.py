"""The numbers of a run: performance and calibration, before and after calibrating on validation.

Several runs of the same data are also evaluated as an ensemble, which predicts the mean of their
probabilities: an alternative to choosing another loss.

Reports and policies use only the test split. It was not used for training, and checkpoint and
calibration were chosen on validation data, so a threshold that is certified on it keeps its
guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from expertload._check import check_fraction
from expertload._files import explained_write_errors
from expertload._typing import FloatArray, IntArray
from expertload.calibrators import TemperatureScaling, make_calibrator
from expertload.evaluation import Evaluation, evaluate
from expertload.exceptions import InsufficientDataError, ParameterError
from expertload.lab.data import Split
from expertload.lab.results.measures import (
    MEASURE_NAMES,
    Measure,
    cases_of,
    find_authors_measure,
    find_measure,
    load_name,
)
from expertload.lab.runs.finished import FinishedRun, Runs, mean_logits, probabilities_of, read_runs
from expertload.lab.runs.folder import Labelled
from expertload.significance import aucoc_interval

Pair = tuple[FloatArray, FloatArray]  # for validation and test
Results = dict[str, Any]
NOTE = (
    "The cases are the test split. It was not used for training, and the checkpoint was chosen on "
    "validation data."
)


@dataclass(frozen=True, kw_only=True)
class RunEvaluation:
    """The results of runs of one data set, each separately and as an ensemble.

    Attributes
    ----------
    data : str
    calibrator : str
        The calibrator, fitted to the validation split, that makes the calibrated results.
    runs : dict
        By folder name: ``validation``, ``test`` and ``test_calibrated``, each with all numbers.
    ensemble : dict or None
        The same for the mean of the runs' probabilities; None for a single run.
    """

    data: str
    calibrator: str
    runs: dict[str, Results]
    ensemble: Results | None


def evaluate_runs(
    folders: Runs,
    *,
    calibrator: str = "temperature",
    target_accuracies: Sequence[float] | None = None,
    **access: Any,
) -> RunEvaluation:
    """Evaluate runs of one data set, and their ensemble if there are several.

    Parameters
    ----------
    folders : path, FinishedRun, or sequence of these
        Folders of finished runs. Runs of different data are refused.
    calibrator : str, default="temperature"
        Any of `expertload.calibrators` by name. ``"kcal"`` works on features, which are computed
        again from the selected weights; an ensemble has those of its members side by side.
    target_accuracies : sequence of float, optional
        The accuracies at which to report the expert load; by default those of the runs' settings.
    **access
        Options of `FinishedRun`, such as `data_dir` and `device`; only ``"kcal"`` needs data and
        networks.

    Returns
    -------
    RunEvaluation

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.evaluate import evaluate_runs
    >>> from expertload.lab.runs.recipe import RunConfig
    >>> from expertload.lab.runs.folder import RunFolder
    >>> logits, labels = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), np.array([0, 0, 1])
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "small-cnn"}, "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> with TemporaryDirectory() as place:
    ...     run = RunFolder(Path(place) / "ce")
    ...     run.create(config)
    ...     run.write_logits("validation", logits, labels)
    ...     run.write_logits("test", logits, labels)
    ...     run.write_json("results.json", {})
    ...     evaluation = evaluate_runs(run.path)
    >>> print(f"{evaluation.runs['ce']['test']['aucoc']:.3f}")
    0.937
    """
    runs = read_runs(folders, **access)
    targets = targets_of(runs, target_accuracies)
    features = [_features(run) if calibrator == "kcal" else None for run in runs]
    separate = {
        name: evaluate_logits(
            run.validation, run.test, targets, calibrator=calibrator, features=own
        )
        for name, run, own in zip(names_of(runs), runs, features, strict=True)
    }
    ensemble = None
    if len(runs) > 1:
        means = mean_logits(runs, "validation"), mean_logits(runs, "test")
        together = _side_by_side([own for own in features if own is not None])
        ensemble = evaluate_logits(*means, targets, calibrator=calibrator, features=together)
    return RunEvaluation(
        data=runs[0].config.data.name, calibrator=calibrator, runs=separate, ensemble=ensemble
    )


def evaluate_logits(
    validation: Labelled,
    test: Labelled,
    target_accuracies: Sequence[float],
    *,
    calibrator: str = "temperature",
    features: Pair | None = None,
) -> Results:
    """Evaluate test logits before and after calibration on validation logits.

    Parameters
    ----------
    validation, test : (logits, labels)
        Logits of the selected weights, with labels.
    target_accuracies : sequence of float
        The accuracies at which to read the expert load.
    calibrator : str, default="temperature"
        Any of `expertload.calibrators` by name.
    features : (validation, test), optional
        The input of the last layer for each split; only for ``"kcal"``.

    Returns
    -------
    dict
        ``validation``, ``test`` and ``test_calibrated``, each with all numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.results.evaluate import evaluate_logits
    >>> sure = np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [0.0, 4.0]]), np.array([0, 1, 0, 0])
    >>> results = evaluate_logits(sure, sure, [0.9])
    >>> print(f"{results['test']['ece']:.2f} {results['test_calibrated']['ece']:.2f}")
    0.23 0.00
    """
    if calibrator == "kcal" and features is None:
        raise ParameterError(
            "The calibrator 'kcal' works on features, not on logits. Hint: pass features=..., or "
            "call evaluate_runs, which computes them from the run's weights."
        )
    (logits, labels), (test_logits, test_labels) = validation, test
    places = np.arange(logits.shape[1])
    options: dict[str, Any] = {"n_classes": len(places)} if calibrator == "kcal" else {}
    known, new = features or (logits, test_logits)
    fitted = make_calibrator(calibrator, **options).fit(known, labels, labels=places)
    splits = {
        "validation": (labels, probabilities_of(logits)),
        "test": (test_labels, probabilities_of(test_logits)),
        "test_calibrated": (test_labels, fitted.transform(new)),
    }
    numbers = {
        name: evaluate_probabilities(*own, target_accuracies) for name, own in splits.items()
    }
    return {**numbers, "calibrator": calibrator}


def evaluate_as_published(run: FinishedRun) -> Results:
    """Evaluate the test split as the authors' code does, for comparisons with published figures.

    AUCOC is their trapezoid, the load that of the nearest point, KS unsorted, the class-wise ECE
    over bins of equal width, and the temperature that of their grid with the least ECE.
    """
    targets = run.config.evaluation.target_accuracies
    (logits, labels), (test_logits, test_labels) = run.validation, run.test
    scaling = TemperatureScaling(objective="ece")
    scaling.fit(logits, labels, labels=np.arange(logits.shape[1]))
    splits = {"test": run.test_proba, "test_calibrated": scaling.transform(test_logits)}
    return {
        name: evaluate_probabilities(test_labels, proba, targets, find=find_authors_measure)
        for name, proba in splits.items()
    }


def evaluate_probabilities(
    labels: IntArray,
    proba: FloatArray,
    target_accuracies: Sequence[float],
    *,
    find: Callable[[str], Measure] = find_measure,
) -> dict[str, float]:
    """Return every number of the paper's tables for one set of probabilities.

    ``aucoc_low`` and ``aucoc_high`` are the ends of the 95 % interval in closed form. `find`
    returns the definition of a number; ours by default.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.results.evaluate import evaluate_probabilities
    >>> proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    >>> numbers = evaluate_probabilities(np.array([0, 1, 1]), proba, [0.95])
    >>> print(f"{numbers['accuracy']:.2f} {numbers['load@95']:.2f}")
    0.67 0.67
    """
    cases = cases_of(labels, proba)
    interval = aucoc_interval(cases)
    names = (*MEASURE_NAMES, *(load_name(target) for target in target_accuracies))
    return {
        **{name: find(name).of(cases) for name in names},
        "aucoc_low": interval.low,
        "aucoc_high": interval.high,
    }


# ------------------------------------------------------------------ parts


def _side_by_side(parts: Sequence[Pair]) -> Pair | None:
    if not parts:
        return None
    return np.hstack([part[0] for part in parts]), np.hstack([part[1] for part in parts])


def _features(run: FinishedRun) -> Pair:
    """Return the input of the last layer for both splits; for an ensemble, of all members."""
    together = _side_by_side([_features(member) for member in run.member_runs()])
    if together is not None:
        return together
    # Imported here, because only this calibrator needs torch.
    from expertload.lab.models import features_of
    from expertload.lab.runs.network import apply_network

    data, network = run.load_data_and_network()

    def features(split: Split) -> FloatArray:
        return apply_network(
            network, split, data.normalisation, lambda images: features_of(network, images)
        )

    return features(data.validation), features(data.test)


def targets_of(runs: Sequence[FinishedRun], given: Sequence[float] | None) -> list[float]:
    """Return the accuracies at which to report the load: as given, or from the runs' settings."""
    if given is not None:
        return [check_fraction(t, "target_accuracies") for t in given]
    return sorted({t for run in runs for t in run.config.evaluation.target_accuracies})


def names_of(runs: Sequence[FinishedRun]) -> list[str]:
    """Return folder names, or whole paths if names repeat."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.folder.path) for run in runs]


# ------------------------------------------------------------------ reports and policies


def evaluate_test_cases(
    folders: Runs, *, target_accuracies: Sequence[float] | None = None
) -> dict[str, Evaluation]:
    """Evaluate runs on their test cases, as `expertload evaluate` does; returns them by name.

    Parameters
    ----------
    folders : path, FinishedRun, or sequence of these
        Folders of finished runs of the same data. Several are also evaluated together: the last
        entry, ``"ensemble"``, predicts the mean of their probabilities.
    target_accuracies : sequence of float, optional
        By default those of the runs' settings. An operating point is certified for the first.

    Returns
    -------
    dict of Evaluation

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab import RunConfig, RunFolder
    >>> from expertload.lab.results.evaluate import evaluate_test_cases
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
        name: evaluate(cases_of(labels, proba), target_accuracy=targets)
        for name, proba in models.items()
    }


def write_report(
    models: Mapping[str, Evaluation], path: Path, *, title: str, note: str = NOTE
) -> None:
    """Write a report about runs, in which the others are compared with the first.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload import Cases
    >>> from expertload.evaluation import evaluate
    >>> from expertload.lab.results.evaluate import write_report
    >>> evaluation = evaluate(Cases.from_predictions([0, 1, 1, 0], [0.1, 0.8, 0.7, 0.4]))
    >>> with TemporaryDirectory() as place:
    ...     write_report({"ce": evaluation}, Path(place) / "report.html", title="Digits")
    ...     (Path(place) / "report.html").exists()
    True
    """
    from expertload.report import build_report  # needs the report extra

    with explained_write_errors(path):
        build_report(models, path=path, title=title, note=note)


def save_policy(models: Mapping[str, Evaluation], path: Path) -> str:
    """Save the certified operating point of the last model, and return its name.

    For several runs, this is their ensemble. Raises if nothing could be certified.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload import Cases
    >>> from expertload.evaluation import evaluate
    >>> from expertload.exceptions import InsufficientDataError
    >>> from expertload.lab.results.evaluate import save_policy
    >>> evaluation = evaluate(Cases.from_predictions([0, 1, 1, 0], [0.1, 0.8, 0.7, 0.4]))
    >>> try:
    ...     save_policy({"ce": evaluation}, Path("policy.json"))
    ... except InsufficientDataError as error:
    ...     print(str(error)[:20])
    No policy was saved.
    """
    name, evaluation = list(models.items())[-1]
    if evaluation.certification is None or not evaluation.is_certified:
        raise InsufficientDataError(f"No policy was saved. {evaluation.conditions}")
    with explained_write_errors(path):
        evaluation.certification.save(path)
    return name
