"""Calibrators: turn a model's outputs into probabilities that match observed frequencies.

All have the same interface: ``fit`` on held-out cases, ``transform`` new ones, ``save`` to JSON.
`load_calibrator` reads the file. `make_calibrator` builds any of them by name.

=====================  ==========================================  ========================
name                   what it does                                keeps the predicted class
=====================  ==========================================  ========================
``temperature``        divides the logits by one number            yes
``platt``              a sigmoid of each class's log-odds          with two classes
``vector_scaling``     a scale and a shift for each logit          no
``matrix_scaling``     a linear map of the logits                  no
``histogram``          the frequency in each bin of probability    no
``isotonic``           a rising curve for each class               no
``spline``             corrects the top probability by a spline    no
``kcal``               looks up nearby cases in feature space      no
=====================  ==========================================  ========================
"""

import os as _os
from collections.abc import Mapping as _Mapping
from types import MappingProxyType as _MappingProxyType
from typing import Any as _Any

from expertload._check import check_option as _check_option
from expertload.calibrators.base import DOCUMENT as _DOCUMENT
from expertload.calibrators.base import CalibrationWarning, Calibrator
from expertload.calibrators.binning import HistogramBinning, IsotonicCalibration
from expertload.calibrators.correctness import CONFIDENCE_SCORES, ConfidenceScore, CorrectnessModel
from expertload.calibrators.kcal import KCal
from expertload.calibrators.scaling import (
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from expertload.calibrators.spline import SplineCalibration

__all__ = [
    "CALIBRATORS",
    "CONFIDENCE_SCORES",
    "CalibrationWarning",
    "Calibrator",
    "ConfidenceScore",
    "CorrectnessModel",
    "HistogramBinning",
    "IsotonicCalibration",
    "KCal",
    "MatrixScaling",
    "PlattScaling",
    "SplineCalibration",
    "TemperatureScaling",
    "VectorScaling",
    "load_calibrator",
    "make_calibrator",
]

CALIBRATORS: _Mapping[str, type[Calibrator]] = _MappingProxyType(
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


def make_calibrator(name: str, **options: _Any) -> Calibrator:
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
    kind = CALIBRATORS[_check_option(name, tuple(CALIBRATORS), "name")]
    for option in options:
        _check_option(option, kind._option_names(), "options")
    calibrator = kind(**options)
    calibrator._check_options()
    return calibrator


def load_calibrator(path: str | _os.PathLike[str]) -> Calibrator:
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
    document = _DOCUMENT.read(path)
    method = document.get("method")
    if not isinstance(method, str) or method not in CALIBRATORS:
        _DOCUMENT.refuse(
            f"its 'method' must be one of {', '.join(CALIBRATORS)}, not {method!r}",
            hint="upgrade expertload if the method is a newer one",
        )
    return CALIBRATORS[method].from_dict(document)
