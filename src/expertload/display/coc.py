"""Plots COC curves: of one model, of several, of the folds of a cross-validation, of a team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from expertload._answers import cases_of
from expertload._check import (
    as_array,
    as_floats,
    check_models,
    check_option,
    message,
    require_extra,
)
from expertload._format import percent, promised
from expertload._typing import ArrayLike, FloatArray
from expertload.cases import Cases
from expertload.display import _draw
from expertload.exceptions import ParameterError, ShapeError
from expertload.significance import COCBand, Interval, aucoc_interval, coc_band
from expertload.team import Combiner, TeamCurve, team_curve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D

    from expertload.operating_point import OperatingPoint

SIZE = (6.4, 4.6)
# More overlapping bands than this are not readable.
MOST_BANDS = 3


class COCDisplay(_draw.OfPredictions):
    """The COC curve of one model, with its area, its interval band and its operating points.

    Use `from_cases`, `from_predictions` or `from_estimator`, which compute and draw, or pass
    computed numbers and call `plot`. To compare several, plot them on the same ``ax``, or use
    `COCComparisonDisplay`.

    Parameters
    ----------
    expert_load, accuracy : array-like of shape (n_points,)
        The curve, as `expertload.coc_curve` returns it.
    aucoc : Interval or float, optional
        The area, for the legend; an interval is written beside it.
    band : COCBand, optional
        Pointwise intervals along the curve, as `expertload.significance.coc_band` returns them.
    name : str, optional
        The model's name, for the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the curve was drawn.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection or None
        The band.
    marks_ : list of PointMarks
        The marks drawn by `mark`: ``dot``, ``guide`` and ``label`` of each operating point, and
        ``certified``, the certified part of the curve, or None.

    Notes
    -----
    Between two thresholds the line shows the accuracy if a random part of the cases between them is
    accepted. This is a hyperbola, not a straight line, so the area under the drawn line is AUCOC.
    Lines of more than four thousand points are reduced to the visible points.

    The vertical axis shows the range that matters. Where at most a tenth of the cases is accepted,
    the curve may leave this range. The band shows how uncertain it is there.

    Examples
    --------
    >>> from expertload import coc_curve
    >>> from expertload.display import COCDisplay
    >>> y_true = [0, 1, 1, 0]
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> curve = coc_curve(y_true, y_proba)
    >>> display = COCDisplay(expert_load=curve.expert_load, accuracy=curve.accuracy).plot()
    >>> display.ax_.get_xlabel()
    'Expert load (share of cases delegated)'
    """

    def __init__(
        self,
        *,
        expert_load: ArrayLike,
        accuracy: ArrayLike,
        aucoc: Interval | float | None = None,
        band: COCBand | None = None,
        name: str | None = None,
    ) -> None:
        self.expert_load: FloatArray = as_floats(expert_load, "expert_load")
        self.accuracy: FloatArray = as_floats(accuracy, "accuracy")
        _draw.check_curve_points(self.expert_load, self.accuracy)
        self.aucoc = aucoc
        self.band = band
        self.name = name

    @classmethod
    def from_cases(
        cls,
        cases: Cases,
        *,
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Compute the curve of cases and draw it.

        Parameters
        ----------
        cases : Cases
            The cases; their weights and clusters change the band and the interval of AUCOC.
        confidence_level : float, default=0.95
            The confidence level of the band and of the interval of AUCOC.
        name : str, optional
            The model's name, for the legend.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **plot_options
            Options of `plot`.

        Examples
        --------
        >>> from expertload import Cases
        >>> from expertload.display import COCDisplay
        >>> cases = Cases.from_correctness([0, 1, 0, 1, 1], [0.45, 0.55, 0.65, 0.70, 0.75])
        >>> print(f"{COCDisplay.from_cases(cases).aucoc.estimate:.3f}")
        0.839
        """
        return cls.measured(cases, confidence_level, name).plot(ax, **plot_options)

    @classmethod
    def measured(cls, cases: Cases, confidence_level: float, name: str | None = None) -> Self:
        """Compute the curve, its area and its band, without drawing them."""
        band, curve = coc_band(cases, confidence_level=confidence_level), cases.curve()
        n_present = len(cases) if cases.weight is None else np.count_nonzero(cases.weight)
        area: Interval | float = cases.tally.area()
        if n_present > 1:  # one case has an area but no interval; its plot must not fail
            area = aucoc_interval(cases, confidence_level=confidence_level)
        return cls(
            expert_load=curve.expert_load, accuracy=curve.accuracy, aucoc=area, band=band, name=name
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
    ) -> COCFoldsDisplay:
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
        """
        labels = as_array(y, "y")
        estimators, tested = _check_cv_results(cv_results, len(labels))
        weight = None if sample_weight is None else as_array(sample_weight, "sample_weight")
        pick = require_extra("sklearn.utils", "sklearn", "from_cv_results")._safe_indexing
        folds = []
        for estimator, rows in zip(estimators, tested, strict=True):
            own = None if weight is None else weight[rows]
            cases = cases_of(estimator, pick(X, rows), labels[rows], sample_weight=own)
            folds.append(cls.measured(cases, 0.95))
        return COCFoldsDisplay(folds, name=name).plot(ax)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        band: bool = True,
        operating_points: Iterable[OperatingPoint] = (),
        line_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default. On axes with other curves, this one gets the
            next colour, and all bands become lighter.
        name : str, optional
            The name for the legend, instead of the display's own.
        band : bool, default=True
            Whether to draw the interval band, if the display has one.
        operating_points : iterable of OperatingPoint, optional
            Points to mark, see `mark`.
        line_options : mapping, optional
            Options of matplotlib's ``Line2D``, such as ``{"color": "black"}``.
        """
        self._draw_on(_draw.one_axes(ax, figsize=SIZE))
        style = {**_draw.next_style(self.ax_), **(line_options or {})}
        shown = self.band if band else None
        _draw.zoom(self.ax_, self.expert_load, self.accuracy, shown)
        points = _draw.along_curve(self.expert_load, self.accuracy)
        (self.line_,) = self.ax_.plot(*points, gid=_draw.CURVE, **style)
        _draw.name_line(self.line_, self._legend_entry(name))
        self.band_ = _draw.draw_band(self.ax_, self.accuracy, shown, self.line_)
        _draw.finish(self.ax_, self._legend_title())
        self.marks_: list[_draw.PointMarks] = []
        for point in operating_points:
            self.mark(point)
        return self

    def mark(self, point: OperatingPoint, *, label: str | None = None) -> Self:
        """Mark an operating point, drawing the curve first if it is not drawn yet.

        Parameters
        ----------
        point : OperatingPoint
            As `expertload.operating_point.choose` returns it. A point that delegates everything has
            no accuracy and is marked at the bottom of the axis. For a `CertifiedPoint`, all
            thresholds that passed are marked along the curve.
        label : str, optional
            The label, such as "95 % accuracy at 29 % load" by default.

        Examples
        --------
        >>> from expertload.display import COCDisplay
        >>> from expertload import Cases, operating_point
        >>> cases = Cases.from_correctness([0, 1, 0, 1, 1], [0.45, 0.55, 0.65, 0.70, 0.75])
        >>> point = operating_point.choose(cases, target_accuracy=0.95)
        >>> display = COCDisplay.from_cases(cases).mark(point)
        >>> display.marks_[0].label.get_text()
        '100 % accuracy at 60 % load'
        """
        if not hasattr(self, "ax_"):
            self.plot()
        colour = self.line_.get_color()
        certified = _draw.draw_certified(self.ax_, point)
        if certified is not None:
            _draw.add_legend(self.ax_, self._legend_title())
        marks = _draw.mark_operating_point(self.ax_, point, colour, label)
        self.marks_.append(marks._replace(certified=certified))
        return self

    def _legend_entry(self, name: str | None) -> str:
        area = self.aucoc
        if isinstance(area, Interval):
            text = f"AUCOC {area.estimate:.3f} [{area.low:.3f}, {area.high:.3f}]"
        else:
            text = "" if area is None else f"AUCOC {area:.3f}"
        return _draw.with_name(self.name if name is None else name, text)

    def _legend_title(self) -> str | None:
        if isinstance(self.aucoc, Interval):
            return f"With {promised(self.aucoc.confidence_level)} intervals"
        return None


# ------------------------------------------------------------------ several curves


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
        self.expert_load, self.accuracy, self.spread = _draw.mean_curve(
            [(fold.expert_load, fold.accuracy) for fold in self.folds]
        )

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Draw the curves of the folds as light lines, and their mean with its band.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        name : str, optional
            The name for the legend, instead of the display's own.
        """
        self._draw_on(_draw.one_axes(ax, figsize=SIZE))
        style = _draw.next_style(self.ax_)
        # All at once: limits that the first fold has set would be kept.
        load = np.concatenate([fold.expert_load for fold in self.folds])
        accuracy = np.concatenate([fold.accuracy for fold in self.folds])
        _draw.zoom(self.ax_, load, accuracy, None)
        self.fold_lines_: list[Line2D] = []
        for fold in self.folds:
            points = _draw.along_curve(fold.expert_load, fold.accuracy)
            lines = self.ax_.plot(
                *points, gid=_draw.FOLD, color=style["color"], linewidth=0.9, alpha=0.35
            )
            self.fold_lines_ += lines
        self._draw_mean(style)
        _draw.name_line(self.line_, self._legend_entry(name))
        _draw.finish(self.ax_, None)
        return self

    def _draw_mean(self, style: dict[str, Any]) -> None:
        """Draw the mean, whose points are close enough for straight lines, and its spread."""
        keep = _draw.visible(self.expert_load, self.accuracy)
        x, y, spread = (column[keep] for column in (self.expert_load, self.accuracy, self.spread))
        (self.line_,) = self.ax_.plot(x, y, gid=_draw.CURVE, **style)
        self.band_: PolyCollection | None = None
        if len(self.folds) > 1:
            low, high = (y - spread).clip(0, 1), (y + spread).clip(0, 1)
            colour = self.line_.get_color()
            self.band_ = self.ax_.fill_between(
                x, low, high, color=colour, linewidth=0, gid=_draw.BAND
            )
            self.band_.set_alpha(_draw.ALPHA_AMONG_OTHERS)

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


# ------------------------------------------------------------------ model and experts


class TeamDisplay(_draw.Drawn):
    """Experts alone, the model alone, both together, and their answers combined.

    Parameters
    ----------
    curve : TeamCurve
        As `expertload.team.team_curve` returns it.
    combined : TeamCurve, optional
        The same with a `Combiner`.
    expert_load : float, optional
        A load to mark on the curve.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the curves were drawn.
    line_, combined_ : matplotlib Line2D
        The curves; `combined_` is None without a second one.
    experts_, model_ : matplotlib Line2D
        The accuracy of experts alone and of the model alone.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.display import TeamDisplay
    >>> cases = Cases.from_predictions(
    ...     [0, 1, 1, 0], [0.1, 0.4, 0.8, 0.3], expert_answers=[0, 1, 0, 0]
    ... )
    >>> TeamDisplay.from_cases(cases, combine=None).experts_.get_label()
    'experts alone: 75 %'
    """

    def __init__(
        self,
        curve: TeamCurve,
        *,
        combined: TeamCurve | None = None,
        expert_load: float | None = None,
    ) -> None:
        self.curve, self.combined, self.expert_load = curve, combined, expert_load

    @classmethod
    def from_cases(
        cls,
        cases: Cases,
        *,
        combine: Combiner | None = None,
        expert_load: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Compute the curves of cases with experts' answers and draw them.

        Parameters
        ----------
        cases, combine
            As in `expertload.team.team_curve`; without `combine`, there is no combined curve.
        expert_load : float, optional
            A load to mark on the curve.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        combined = None if combine is None else team_curve(cases, combine=combine)
        return cls(team_curve(cases), combined=combined, expert_load=expert_load).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        self._draw_on(_draw.one_axes(ax, figsize=SIZE))
        ends = {"experts alone": self.curve.accuracy[-1], "model alone": self.curve.accuracy[0]}
        self.experts_, self.model_ = (
            _draw.name_line(
                self.ax_.axhline(
                    float(accuracy), color=_draw.GUIDE, linestyle=dashes, linewidth=1.2
                ),
                f"{name}: {percent(float(accuracy))}",
            )
            for (name, accuracy), dashes in zip(ends.items(), ("--", ":"), strict=True)
        )
        self.line_ = self._line(self.curve, "together", _draw.BLUE)
        self.combined_: Line2D | None = None
        if self.combined is not None:
            self.combined_ = self._line(self.combined, "combined", _draw.GREEN)
        if self.expert_load is not None:
            self.ax_.axvline(self.expert_load, color=_draw.VERMILION, linewidth=1.2)
        whose = "Accuracy of model and experts, all cases"
        self.ax_.set(xlabel="Expert load (share of cases delegated)", ylabel=whose)
        _draw.quiet(self.ax_, "x", "y")
        _draw.add_legend(self.ax_)
        return self

    def _line(self, curve: TeamCurve, name: str, colour: str) -> Line2D:
        rows = _draw.visible(curve.expert_load, curve.accuracy)
        (line,) = self.ax_.plot(
            curve.expert_load[rows], curve.accuracy[rows], color=colour, linewidth=1.8
        )
        best = curve.best
        at, load = float(curve.accuracy[best]), float(curve.expert_load[best])
        return _draw.name_line(line, f"{name}: at best {percent(at)}, load {percent(load)}")
