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

from expertload.calibrators.base import CalibrationWarning, Calibrator
from expertload.calibrators.confidence_score import CONFIDENCE_SCORES, ConfidenceScore
from expertload.calibrators.correctness import CorrectnessModel
from expertload.calibrators.histogram import HistogramBinning
from expertload.calibrators.isotonic import IsotonicCalibration
from expertload.calibrators.kcal import KCal
from expertload.calibrators.matrix_scaling import MatrixScaling
from expertload.calibrators.platt import PlattScaling
from expertload.calibrators.registry import CALIBRATORS, load_calibrator, make_calibrator
from expertload.calibrators.spline import SplineCalibration
from expertload.calibrators.temperature import TemperatureScaling
from expertload.calibrators.vector_scaling import VectorScaling

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
