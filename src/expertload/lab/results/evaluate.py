"""The numbers of a run: performance and calibration, before and after calibrating on validation.

Several runs of the same data are also evaluated as an ensemble, which predicts the mean of their
probabilities: an alternative to choosing another loss.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload._validation import check_fraction
from expertload.calibrators import make_calibrator
from expertload.cases import Cases
from expertload.exceptions import ParameterError
from expertload.lab.results.measures import MEASURE_NAMES, find_measure, load_name
from expertload.lab.runs.finished import FinishedRun, Runs, probabilities_of, read_runs
from expertload.significance import aucoc_interval

__all__ = ["RunEvaluation", "evaluate_logits", "evaluate_probabilities", "evaluate_runs"]

Labelled = tuple[FloatArray, IntArray]
Results = dict[str, Any]


class _Pair(NamedTuple):
    """A pair of values, for validation and test."""

    validation: FloatArray
    test: FloatArray


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

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists and numbers."""
        return asdict(self)


def evaluate_runs(
    folders: Runs,
    *,
    calibrator: str = "temperature",
    target_accuracies: Sequence[float] | None = None,
    data_dir: str | Path | None = None,
    allow: Collection[str] = (),
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
    data_dir : path, optional
        Where data files are; only ``"kcal"`` needs them.
    allow : collection of str
        Import paths of your own networks that the folders may import; only ``"kcal"`` builds
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
    runs = read_runs(folders)
    targets = targets_of(runs, target_accuracies)
    features = [_features(run, data_dir, allow) if calibrator == "kcal" else None for run in runs]
    each = {
        name: evaluate_logits(
            run.validation, run.test, targets, calibrator=calibrator, features=own
        )
        for name, run, own in zip(names_of(runs), runs, features, strict=True)
    }
    return RunEvaluation(
        data=runs[0].config.data.name,
        calibrator=calibrator,
        runs=each,
        ensemble=_evaluate_ensemble(runs, features, targets, calibrator) if len(runs) > 1 else None,
    )


def evaluate_logits(
    validation: Labelled,
    test: Labelled,
    target_accuracies: Sequence[float],
    *,
    calibrator: str = "temperature",
    features: tuple[FloatArray, FloatArray] | None = None,
) -> dict[str, Any]:
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
    logits = _Pair(validation[0], test[0])
    proba = _Pair(*map(probabilities_of, logits))
    calibrated = _calibrate(
        calibrator, logits, validation[1], features=features, n_classes=proba.test.shape[1]
    )
    return _results(proba, calibrated, (validation[1], test[1]), target_accuracies, calibrator)


def evaluate_probabilities(
    labels: IntArray, proba: FloatArray, target_accuracies: Sequence[float]
) -> dict[str, float]:
    """Return every number of the paper's tables for one set of probabilities.

    ``aucoc_low`` and ``aucoc_high`` are the ends of the 95 % interval in closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.results.evaluate import evaluate_probabilities
    >>> proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    >>> numbers = evaluate_probabilities(np.array([0, 1, 1]), proba, [0.95])
    >>> print(f"{numbers['accuracy']:.2f} {numbers['load@95']:.2f}")
    0.67 0.67
    """
    interval = aucoc_interval(
        Cases.from_predictions(labels, proba, labels=np.arange(proba.shape[1]))
    )
    names = (*MEASURE_NAMES, *(load_name(target) for target in target_accuracies))
    numbers = [(name, find_measure(name).metric) for name in names]
    return {
        **{name: metric(labels, proba) for name, metric in numbers if metric is not None},
        "aucoc_low": interval.low,
        "aucoc_high": interval.high,
    }


# ------------------------------------------------------------------ parts


def _results(
    proba: _Pair,
    calibrated: FloatArray,
    labels: tuple[IntArray, IntArray],
    targets: Sequence[float],
    calibrator: str,
) -> Results:
    return {
        "validation": evaluate_probabilities(labels[0], proba.validation, targets),
        "test": evaluate_probabilities(labels[1], proba.test, targets),
        "test_calibrated": evaluate_probabilities(labels[1], calibrated, targets),
        "calibrator": calibrator,
    }


def _calibrate(
    name: str,
    inputs: _Pair,
    labels: IntArray,
    *,
    features: tuple[FloatArray, FloatArray] | None,
    n_classes: int,
    kind: str = "logits",
) -> FloatArray:
    """Fit on validation, and return the test split's calibrated probabilities."""
    if name != "kcal":
        fitted = make_calibrator(name, input=kind).fit(
            inputs.validation, labels, labels=np.arange(inputs.validation.shape[1])
        )
        return fitted.transform(inputs.test)
    if features is None:
        raise ParameterError(
            "The calibrator 'kcal' works on features, not on logits. Hint: pass features=..., or "
            "call evaluate_runs, which computes them from the run's weights."
        )
    return (
        make_calibrator(name, n_classes=n_classes)
        .fit(features[0], labels, labels=np.arange(n_classes))
        .transform(features[1])
    )


def _evaluate_ensemble(
    runs: Sequence[FinishedRun],
    features: Sequence[_Pair | None],
    targets: Sequence[float],
    calibrator: str,
) -> Results:
    proba = _Pair(
        np.mean([run.validation_proba for run in runs], axis=0),
        np.mean([run.test_proba for run in runs], axis=0),
    )
    known = [pair for pair in features if pair is not None]
    together = _Pair(*(np.hstack(each) for each in zip(*known, strict=True))) if known else None
    labels = runs[0].validation[1], runs[0].test[1]
    calibrated = _calibrate(
        calibrator,
        proba,
        labels[0],
        features=together,
        n_classes=proba.test.shape[1],
        kind="probabilities",
    )
    return _results(proba, calibrated, labels, targets, calibrator)


def _features(run: FinishedRun, data_dir: str | Path | None, allow: Collection[str]) -> _Pair:
    """Return the input of the last layer for both splits; for an ensemble, of all members."""
    if run.members:
        each = [_features(FinishedRun(m.path), data_dir, allow) for m in run.members]
        return _Pair(*(np.hstack(split) for split in zip(*each, strict=True)))
    # Imported here, because only this calibrator needs torch.
    from expertload.lab.models import features_of
    from expertload.lab.runs.network import apply_network

    data, network = run.load_data_and_network(data_dir, allow=allow)
    return _Pair(
        *(
            apply_network(
                network, split, data.normalisation, lambda images: features_of(network, images)
            )
            for split in (data.validation, data.test)
        )
    )


def targets_of(runs: Sequence[FinishedRun], given: Sequence[float] | None) -> list[float]:
    """Return the accuracies at which to report the load: as given, or from the runs' settings."""
    if given is not None:
        return [check_fraction(t, "target_accuracies") for t in given]
    return sorted({t for run in runs for t in run.config.evaluation.target_accuracies})


def names_of(runs: Sequence[FinishedRun]) -> list[str]:
    """Return folder names, or whole paths if names repeat."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.folder.path) for run in runs]
