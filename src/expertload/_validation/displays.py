"""Displays: models, axes and curves that can be drawn."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from expertload._typing import FloatArray
from expertload._validation.arrays import check_same_length, check_unit_interval
from expertload._validation.wording import message
from expertload.exceptions import ParameterError, ShapeError


def check_classifier(estimator: Any, attribute: str, caller: str) -> None:
    """Raise unless a classifier has what is read from it."""
    if not hasattr(estimator, attribute):
        has_scores = attribute == "predict_proba" and hasattr(estimator, "decision_function")
        raise ParameterError(
            message(
                "estimator",
                caller,
                "must be a fitted classifier with 'predict_proba' and 'classes_'",
                f"a {type(estimator).__name__} without '{attribute}'",
                "wrap it in sklearn.calibration.CalibratedClassifierCV, which gives probabilities"
                if has_scores
                else "functions that take y_proba need no estimator, only its probabilities",
            )
        )


def check_cv_results(results: Any, n: int, caller: str) -> tuple[list[Any], list[Any]]:
    """Return the classifiers of a cross-validation, and the rows each was tested on."""
    kept = isinstance(results, Mapping) and {"estimator", "indices"} <= set(results)
    if not kept:
        raise ParameterError(
            message(
                "cv_results",
                caller,
                "must hold 'estimator' and 'indices'",
                f"the keys {', '.join(map(str, results))}"
                if isinstance(results, Mapping)
                else f"a {type(results).__name__}",
                "cross_validate(..., return_estimator=True, return_indices=True)",
            )
        )
    tested = [np.asarray(rows) for rows in results["indices"]["test"]]
    largest = max(
        int(rows.max()) for part in results["indices"].values() for rows in map(np.asarray, part)
    )
    if largest >= n:
        raise ShapeError(
            message("y", caller, "must be what cross_validate was given", f"{n} cases, too few")
        )
    return list(results["estimator"]), tested


def check_models(models: Any, caller: str) -> dict[str, Any]:
    """Return a mapping from names to models, of which there must be some."""
    if not isinstance(models, Mapping) or not models:
        raise ParameterError(
            message(
                "models",
                caller,
                "must map at least one name to a model",
                "nothing" if isinstance(models, Mapping) else f"a {type(models).__name__}",
                'pass {"name": model, ...}',
            )
        )
    return {str(name): model for name, model in models.items()}


def check_axes(ax: Any, caller: str, *, most: int) -> list[Any]:
    """Return one axes or a sequence of at most `most` as a list."""
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if not 1 <= len(given) <= most or not all(hasattr(each, "get_figure") for each in given):
        wanted = "must be matplotlib axes" if most == 1 else "must be one or two matplotlib axes"
        raise ParameterError(message("ax", caller, wanted, f"{ax!r}"))
    return given


def check_curve_points(expert_load: FloatArray, accuracy: FloatArray, caller: str) -> None:
    """Raise unless loads and accuracies can be those of a curve, as `coc_curve` returns them."""
    check_same_length(caller, expert_load=expert_load, accuracy=accuracy)
    check_unit_interval(accuracy, "accuracy", caller)
    ascending = expert_load[0] == 0 and (np.diff(expert_load) > 0).all() and expert_load[-1] < 1
    if not ascending:
        raise ParameterError(
            message(
                "expert_load",
                caller,
                "must rise from 0 and stay below 1",
                f"values from {expert_load[0]:g} to {expert_load[-1]:g}",
                "pass what coc_curve returns",
            )
        )


def check_roc_points(false: FloatArray, true: FloatArray, caller: str) -> None:
    """Raise unless two rates can be those of an ROC curve."""
    check_same_length(caller, false_positive_rate=false, true_positive_rate=true)
    for name, rate in (("false_positive_rate", false), ("true_positive_rate", true)):
        if rate[0] != 0 or rate[-1] != 1 or (np.diff(rate) < 0).any():
            got = f"values from {rate[0]:g} to {rate[-1]:g}"
            raise ParameterError(message(name, caller, "must ascend from 0 to 1", got))


def check_page_name(path: str | os.PathLike[str], name: str, caller: str) -> None:
    """Raise unless a page is written under the name of one: a .pdf of HTML opens nowhere."""
    if not os.fspath(path).lower().endswith((".html", ".htm")):
        raise ParameterError(
            message(
                name,
                caller,
                "must end in .html",
                os.fspath(path),
                "write the page, and print it from a browser where a PDF is wanted",
            )
        )


def check_evaluations(models: Any, kind: type, caller: str) -> dict[str, Any]:
    """Return evaluations by name; one without a name is simply the model."""
    named = check_models({"Model": models} if isinstance(models, kind) else models, caller)
    for name, model in named.items():
        if not isinstance(model, kind):
            raise ParameterError(
                message(
                    "models",
                    caller,
                    f"must map names to {kind.__name__} objects",
                    f"a {type(model).__name__} for '{name}'",
                    "pass what evaluate_predictions returns",
                )
            )
    return named
