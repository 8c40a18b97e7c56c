"""Plots the COC curve: accuracy among accepted cases against the share sent to experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from expertload._check import as_floats, check_fraction
from expertload._format import promised
from expertload._typing import ArrayLike, FloatArray
from expertload.cases import Cases, check_are_cases
from expertload.display import _curve, _draw
from expertload.significance import COCBand, Interval, aucoc_interval, coc_band

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from matplotlib.axes import Axes

    from expertload.display.several import COCFoldsDisplay
    from expertload.operating_point import CertifiedCurve, OperatingPoint

SIZE = (6.4, 4.6)


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
    floor_ : matplotlib Line2D
        The certified lower bound, once `floor` has drawn it.
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
        _curve.check_curve_points(self.expert_load, self.accuracy)
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

        Returns
        -------
        COCDisplay
            The display, drawn.

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
        level = check_fraction(confidence_level, "confidence_level", inclusive=False)
        check_are_cases(cases)
        n_present = len(cases) if cases.weight is None else np.count_nonzero(cases.weight)
        area: Interval | float = cases.tally.area()
        if n_present > 1:  # one case has an area but no interval; its plot must not fail
            area = aucoc_interval(cases, confidence_level=level)
        band, curve = coc_band(cases, confidence_level=level), cases.curve()
        return cls(
            expert_load=curve.expert_load, accuracy=curve.accuracy, aucoc=area, band=band, name=name
        )

    @classmethod
    def from_cv_results(
        cls, cv_results: Mapping[str, Any], X: Any, y: ArrayLike, **options: Any
    ) -> COCFoldsDisplay:
        """Compute and draw the curves of the folds of a cross-validation, and their mean.

        Parameters
        ----------
        cv_results : mapping
            The result of scikit-learn's ``cross_validate`` with ``return_estimator=True`` and
            ``return_indices=True``.
        X, y : array-like
            The data passed to it.
        **options
            ``sample_weight``, ``name`` and ``ax``, see `COCFoldsDisplay.from_cv_results`.

        Returns
        -------
        COCFoldsDisplay
            The display, drawn.
        """
        from expertload.display.several import COCFoldsDisplay  # avoids a cycle

        return COCFoldsDisplay.from_cv_results(cv_results, X, y, **options)

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

        Returns
        -------
        COCDisplay
            This display.
        """
        self._draw_on(_draw.one_axes(ax, figsize=SIZE))
        style = {**_curve.next_style(self.ax_), **(line_options or {})}
        _curve.zoom(self.ax_, self.expert_load, self.accuracy, self.band if band else None)
        self.line_ = _curve.draw_line(
            self.ax_, self.expert_load, self.accuracy, label=self._legend_entry(name), **style
        )
        self.band_ = (
            _curve.draw_band(self.ax_, self.accuracy, self.band, self.line_) if band else None
        )
        _curve.finish(self.ax_, self._legend_title())
        self.marks_: list[_curve.PointMarks] = []
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

        Returns
        -------
        COCDisplay
            This display.

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
        certified = _curve.draw_certified(self.ax_, point)
        if certified is not None:
            _draw.add_legend(self.ax_, self._legend_title())
        marks = _curve.mark_operating_point(self.ax_, point, colour, label)
        self.marks_.append(marks._replace(certified=certified))
        return self

    def floor(self, curve: CertifiedCurve) -> Self:
        """Draw a certified lower bound, drawing the curve first if it is not drawn yet.

        Parameters
        ----------
        curve : CertifiedCurve
            As `expertload.operating_point.certified_curve` returns it. Unlike the band, which is
            pointwise, it holds at all thresholds at once.

        Returns
        -------
        COCDisplay
            This display; the line is ``floor_``.

        Examples
        --------
        >>> from expertload.display import COCDisplay
        >>> from expertload import Cases
        >>> from expertload.operating_point import certified_curve
        >>> cases = Cases.from_correctness([1] * 200, range(200))
        >>> COCDisplay.from_cases(cases).floor(certified_curve(cases)).floor_.get_label()
        'certified at all thresholds at once (95 %)'
        """
        if not hasattr(self, "ax_"):
            self.plot()
        load, _, lower, _ = _curve.along_curve(
            curve.expert_load, curve.accuracy, curve.lower, curve.lower
        )
        (self.floor_,) = self.ax_.plot(
            load,
            lower,
            color=self.line_.get_color(),
            linestyle=":",
            label=f"certified at all thresholds at once ({promised(curve.confidence_level)})",
        )
        _draw.add_legend(self.ax_, self._legend_title())
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
