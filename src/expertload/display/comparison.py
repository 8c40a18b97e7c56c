"""Several models' COC curves on one axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from expertload._answers import judge
from expertload._cases import Cases, check_cases, check_correctness_cases
from expertload._typing import ArrayLike
from expertload._validation import check_model_pairs, check_models, check_option
from expertload.display.axes import figure_of, one_axes
from expertload.display.coc import SIZE, COCDisplay
from expertload.display.measure import measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from expertload.operating_point import OperatingPoint

__all__ = ["COCComparisonDisplay"]

# More overlapping bands than this are not readable.
MOST_BANDS = 3


class COCComparisonDisplay:
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
    >>> from expertload.display import COCComparisonDisplay
    >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    >>> comparison = COCComparisonDisplay.from_correctness(
    ...     {"first": ([0, 1, 0, 1, 1], confidence), "second": ([1, 0, 1, 1, 0], confidence)}
    ... )
    >>> {name: round(d.aucoc.estimate, 3) for name, d in comparison.displays.items()}
    {'first': 0.839, 'second': 0.406}
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, displays: Mapping[str, COCDisplay]) -> None:
        self.displays: dict[str, COCDisplay] = check_models(displays)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        models: Mapping[str, ArrayLike],
        *,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        confidence_level: float = 0.95,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Compute and draw the curves of several models on the same cases.

        Parameters
        ----------
        y_true, sample_weight, labels
            As in `expertload.coc_curve`.
        models : mapping from str to array-like
            The probabilities that each model gives, ``{"CE": proba_a, "CE+AUCOC": proba_b}``.
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
        cases = {
            name: check_cases(y_true, proba, None, sample_weight, labels)
            for name, proba in check_models(models).items()
        }
        return cls._of_cases(cases, confidence_level).plot(ax, **plot_options)

    @classmethod
    def from_estimators(
        cls, models: Mapping[str, Any], X: Any, y: ArrayLike, **options: Any
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
        **options
            Options of `from_correctness`.

        Returns
        -------
        COCComparisonDisplay
            The display, drawn.
        """
        weight = options.get("sample_weight")
        pairs = {
            name: judge(estimator, X, y, sample_weight=weight)
            for name, estimator in check_models(models).items()
        }
        return cls.from_correctness(pairs, **options)

    @classmethod
    def from_correctness(
        cls,
        models: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        sample_weight: ArrayLike | None = None,
        confidence_level: float = 0.95,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Compute and draw several curves from correctness and confidence.

        Parameters
        ----------
        models : mapping from str to pair of array-like
            Each model's ``(correct, confidence)``, as in `expertload.Cases.from_correctness`.
        sample_weight, confidence_level, ax, **plot_options
            As in `from_predictions`.

        Returns
        -------
        COCComparisonDisplay
            The display, drawn.
        """
        cases = {
            name: check_correctness_cases(correct, confidence, sample_weight)
            for name, (correct, confidence) in check_model_pairs(models).items()
        }
        return cls._of_cases(cases, confidence_level).plot(ax, **plot_options)

    @classmethod
    def _of_cases(cls, cases: Mapping[str, Cases], level: float) -> Self:
        return cls(
            {name: COCDisplay(**measure(each, level), name=name) for name, each in cases.items()}
        )

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
        self.ax_ = one_axes(ax, figsize=SIZE)
        self.figure_ = figure_of(self.ax_)
        band = len(self.displays) <= MOST_BANDS if band is None else band
        for name, display in self.displays.items():
            display.plot(self.ax_, name=name, band=band)
        for name, points in (operating_points or {}).items():
            check_option(name, tuple(self.displays), "operating_points")
            for point in points:
                self.displays[name].mark(point)
        return self
