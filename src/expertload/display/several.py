"""The COC curves of several models, and of the folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from expertload._answers import cases_of
from expertload._check import (
    as_array,
    check_models,
    check_option,
    message,
    require_extra,
)
from expertload._typing import ArrayLike, FloatArray
from expertload.cases import Cases
from expertload.display import _curve, _draw
from expertload.display.coc import SIZE, COCDisplay
from expertload.exceptions import ParameterError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D

    from expertload.operating_point import OperatingPoint


# More overlapping bands than this are not readable.
MOST_BANDS = 3


class COCComparisonDisplay(_draw.Drawn):
    """The COC curves of several models, drawn together.

    Parameters
    ----------
    displays : mapping from str to COCDisplay
        The curves by the models' names. The class methods make them.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the curves were drawn.
    displays : dict from str to COCDisplay
        The single displays, each with its ``line_``, ``band_`` and ``marks_``.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.display import COCComparisonDisplay
    >>> correct = {"first": [0, 1, 0, 1, 1], "second": [1, 0, 1, 1, 0]}
    >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    >>> comparison = COCComparisonDisplay.from_cases(
    ...     {name: Cases.from_correctness(right, confidence) for name, right in correct.items()}
    ... )
    >>> {name: round(d.aucoc.estimate, 3) for name, d in comparison.displays.items()}
    {'first': 0.839, 'second': 0.406}
    """

    def __init__(self, displays: Mapping[str, COCDisplay]) -> None:
        self.displays: dict[str, COCDisplay] = check_models(displays)

    @classmethod
    def from_cases(
        cls,
        models: Mapping[str, Cases],
        *,
        confidence_level: float = 0.95,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Compute and draw the curves of several models.

        Parameters
        ----------
        models : mapping from str to Cases
            The cases of each model.
        confidence_level : float, default=0.95
            That of the bands and of the intervals of AUCOC.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **plot_options
            Options of `plot`.

        Returns
        -------
        COCComparisonDisplay
            The display, drawn.
        """
        displays = {
            name: COCDisplay.measured(cases, confidence_level, name)
            for name, cases in check_models(models).items()
        }
        return cls(displays).plot(ax, **plot_options)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        models: Mapping[str, ArrayLike],
        *,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        **options: Any,
    ) -> Self:
        """Compute and draw the curves of several models on the same cases.

        Parameters
        ----------
        y_true, sample_weight, labels
            As in `expertload.coc_curve`.
        models : mapping from str to array-like
            The probabilities that each model gives, ``{"CE": proba_a, "CE+AUCOC": proba_b}``.
        **options
            Options of `from_cases`.

        Returns
        -------
        COCComparisonDisplay
            The display, drawn.
        """
        cases = {
            name: Cases.from_predictions(y_true, proba, sample_weight=sample_weight, labels=labels)
            for name, proba in check_models(models).items()
        }
        return cls.from_cases(cases, **options)

    @classmethod
    def from_estimators(
        cls,
        models: Mapping[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        **options: Any,
    ) -> Self:
        """Compute and draw the curves of several fitted classifiers on the same cases.

        Parameters
        ----------
        models : mapping from str to object
            Classifiers with ``predict_proba`` and ``classes_``, which need not be in one order.
        X : array-like
            What they predict from.
        y : array-like of shape (n_cases,)
            True labels; those an estimator does not know count as its errors.
        sample_weight : array-like of shape (n_cases,), optional
            How much each case counts.
        **options
            Options of `from_cases`.

        Returns
        -------
        COCComparisonDisplay
            The display, drawn.
        """
        cases = {
            name: cases_of(estimator, X, y, sample_weight=sample_weight)
            for name, estimator in check_models(models).items()
        }
        return cls.from_cases(cases, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        band: bool | None = None,
        operating_points: Mapping[str, Iterable[OperatingPoint]] | None = None,
    ) -> Self:
        """Draw all curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        band : bool, optional
            Whether to draw the interval bands: by default for up to three models.
        operating_points : mapping from str to iterable of OperatingPoint, optional
            Points to mark, by the model's name.

        Returns
        -------
        COCComparisonDisplay
            This display.
        """
        self._draw_on(_draw.one_axes(ax, figsize=SIZE))
        band = len(self.displays) <= MOST_BANDS if band is None else band
        for name, display in self.displays.items():
            display.plot(self.ax_, name=name, band=band)
        for name, points in (operating_points or {}).items():
            check_option(name, tuple(self.displays), "operating_points")
            for point in points:
                self.displays[name].mark(point)
        return self


class COCFoldsDisplay(_draw.Drawn):
    """COC curves of the folds of a cross-validation, with their mean.

    At each load the mean is that of the folds' accuracies, so the area under it is the mean of the
    folds' areas. The band around it is one standard deviation of the folds to either side: it
    shows how much they differ, and is not a confidence interval.

    Parameters
    ----------
    folds : sequence of COCDisplay
        The curves. `COCDisplay.from_cv_results` makes them.
    name : str, optional
        The model's name, for the legend.

    Attributes
    ----------
    folds : list of COCDisplay
        The curves of the folds.
    expert_load, accuracy, spread : ndarray of shape (n_points,)
        The mean curve, and the standard deviation of the folds around it (zero for one fold).
    aucoc : ndarray of shape (n_folds,)
        The area of each fold.
    ax_, figure_ : matplotlib Axes and Figure
        Where the curves were drawn.
    line_, fold_lines_, band_ : matplotlib Line2D, list of Line2D, PolyCollection or None
        The mean, the folds, and the band; None for a single fold.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_validate
    >>> from expertload.display import COCDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(C=0.01, max_iter=1000)
    >>> found = cross_validate(model, X, y, return_estimator=True, return_indices=True)
    >>> display = COCDisplay.from_cv_results(found, X, y)
    >>> display.line_.get_label()
    'mean of 5 folds, AUCOC 0.961 ± 0.029'
    """

    def __init__(self, folds: Sequence[COCDisplay], *, name: str | None = None) -> None:
        self.folds = list(folds)
        self.name = name
        areas = [getattr(fold.aucoc, "estimate", fold.aucoc) for fold in self.folds]
        self.aucoc: FloatArray = np.array(areas, dtype=np.float64)  # NaN where there is none
        self.expert_load, self.accuracy, self.spread = _curve.mean_curve(
            [(fold.expert_load, fold.accuracy) for fold in self.folds]
        )

    @classmethod
    def from_cv_results(
        cls,
        cv_results: Mapping[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Compute the curve of each fold on the cases it was tested on, and draw them.

        Parameters
        ----------
        cv_results : mapping
            The result of scikit-learn's ``cross_validate`` with ``return_estimator=True`` and
            ``return_indices=True``.
        X, y : array-like
            The data passed to it. A class that a fold's classifier never saw counts as an error.
        sample_weight : array-like of shape (n_cases,), optional
            How much each case counts.
        name : str, optional
            The model's name, for the legend.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        COCFoldsDisplay
            The display, drawn.
        """
        labels = as_array(y, "y")
        estimators, tested = _check_cv_results(cv_results, len(labels))
        weight = None if sample_weight is None else as_array(sample_weight, "sample_weight")
        pick = require_extra("sklearn.utils", "sklearn", "from_cross_validation")._safe_indexing
        folds = []
        for estimator, rows in zip(estimators, tested, strict=True):
            own = None if weight is None else weight[rows]
            cases = cases_of(estimator, pick(X, rows), labels[rows], sample_weight=own)
            folds.append(COCDisplay.measured(cases, 0.95))
        return cls(folds, name=name).plot(ax)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Draw the curves of the folds as light lines, and their mean with its band.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        name : str, optional
            The name for the legend, instead of the display's own.

        Returns
        -------
        COCFoldsDisplay
            This display.
        """
        self._draw_on(_draw.one_axes(ax, figsize=SIZE))
        style = _curve.next_style(self.ax_)
        for fold in self.folds:
            _curve.zoom(self.ax_, fold.expert_load, fold.accuracy, None)
        self.fold_lines_: list[Line2D] = []
        for fold in self.folds:
            points = _curve.along_curve(fold.expert_load, fold.accuracy)
            lines = self.ax_.plot(
                *points, gid=_curve.FOLD, color=style["color"], linewidth=0.9, alpha=0.35
            )
            self.fold_lines_ += lines
        self._draw_mean(style)
        _draw.name_line(self.line_, self._legend_entry(name))
        _curve.finish(self.ax_, None)
        return self

    def _draw_mean(self, style: dict[str, Any]) -> None:
        """Draw the mean, whose points are close enough for straight lines, and its spread."""
        keep = _curve.visible(self.expert_load, self.accuracy)
        x, y, spread = (each[keep] for each in (self.expert_load, self.accuracy, self.spread))
        (self.line_,) = self.ax_.plot(x, y, gid=_curve.CURVE, **style)
        self.band_: PolyCollection | None = None
        if len(self.folds) > 1:
            low, high = (y - spread).clip(0, 1), (y + spread).clip(0, 1)
            colour = self.line_.get_color()
            self.band_ = self.ax_.fill_between(
                x, low, high, color=colour, linewidth=0, gid=_curve.BAND
            )
            self.band_.set_alpha(_curve.ALPHA_AMONG_OTHERS)

    def _legend_entry(self, name: str | None) -> str:
        text = f"AUCOC {self.aucoc.mean():.3f}"
        if len(self.folds) > 1:
            text = f"mean of {len(self.folds)} folds, {text} ± {self.aucoc.std(ddof=1):.3f}"
        return _draw.with_name(self.name if name is None else name, text)


def _check_cv_results(results: Any, n: int) -> tuple[list[Any], list[Any]]:
    """Return the classifiers of a cross-validation, and the rows each was tested on."""
    try:
        estimators, tested = results["estimator"], results["indices"]["test"]
    except (KeyError, TypeError) as error:
        got = ", ".join(map(str, results)) if isinstance(results, Mapping) else type(results)
        hint = "cross_validate(..., return_estimator=True, return_indices=True)"
        wanted = "must hold 'estimator' and 'indices'"
        raise ParameterError(message("cv_results", wanted, got, hint)) from error
    if max(int(np.max(rows)) for rows in tested) >= n:
        wanted = "must be the data passed to cross_validate"
        raise ShapeError(message("y", wanted, f"{n} cases, too few"))
    return list(estimators), list(tested)
