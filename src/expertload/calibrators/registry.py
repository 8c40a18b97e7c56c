"""Calibrators by name, for settings files, command lines and saved JSON."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from expertload._validation import check_option
from expertload.calibrators.base import DOCUMENT, Calibrator
from expertload.calibrators.histogram import HistogramBinning
from expertload.calibrators.isotonic import IsotonicCalibration
from expertload.calibrators.kcal import KCal
from expertload.calibrators.matrix_scaling import MatrixScaling
from expertload.calibrators.platt import PlattScaling
from expertload.calibrators.spline import SplineCalibration
from expertload.calibrators.temperature import TemperatureScaling
from expertload.calibrators.vector_scaling import VectorScaling

CALIBRATORS: Mapping[str, type[Calibrator]] = MappingProxyType(
    {
        calibrator.name: calibrator
        for calibrator in (
            TemperatureScaling,
            PlattScaling,
            VectorScaling,
            MatrixScaling,
            HistogramBinning,
            IsotonicCalibration,
            SplineCalibration,
            KCal,
        )
    }
)


def make_calibrator(name: str, **options: Any) -> Calibrator:
    """Return a calibrator by name.

    Parameters
    ----------
    name : str
        A key of `CALIBRATORS`.
    **options
        Options of the calibrator, checked immediately.

    Returns
    -------
    Calibrator
        A calibrator that is not fitted.

    Examples
    --------
    >>> make_calibrator("temperature", objective="ece")
    TemperatureScaling(input='logits', objective='ece')
    """
    kind = CALIBRATORS[check_option(name, tuple(CALIBRATORS), "name")]
    known = tuple(inspect.signature(kind).parameters)
    for option in options:
        check_option(option, known, "options")
    calibrator = kind(**options)
    calibrator._check_options()
    return calibrator


def load_calibrator(path: str | os.PathLike[str]) -> Calibrator:
    """Return the fitted calibrator in a file that `Calibrator.save` wrote.

    Parameters
    ----------
    path : path-like
        The file. One that is damaged, of another kind, or written by a newer library raises
        `FileFormatError`.

    Returns
    -------
    Calibrator
        Equal, to the last bit, to the one that was saved.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> fitted = TemperatureScaling().fit([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]], [0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "calibrator.json"
    ...     fitted.save(path)
    ...     loaded = load_calibrator(path)
    >>> round(loaded.temperature_, 3)
    5.771
    """
    document = DOCUMENT.read(path)
    method = document.get("method")
    if not isinstance(method, str) or method not in CALIBRATORS:
        DOCUMENT.refuse(
            f"its 'method' must be one of {', '.join(CALIBRATORS)}, not {method!r}",
            hint="upgrade expertload if the method is a newer one",
        )
    return CALIBRATORS[method].from_dict(document)
