from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from expertload.calibrators import CALIBRATORS, TemperatureScaling, make_calibrator
from expertload.exceptions import ParameterError


@pytest.mark.parametrize("name", sorted(CALIBRATORS))
def test_clones_have_the_options_and_nothing_learned(name):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 3))
    fitted = make_calibrator(name).fit(logits, rng.integers(0, 3, 60))
    copy = clone(fitted)
    assert type(copy) is type(fitted)
    assert copy.options == fitted.options
    assert fitted.is_fitted
    assert not copy.is_fitted


def test_options_are_kept_and_can_be_set():
    copy = clone(TemperatureScaling(input="probabilities", objective="ece"))
    assert copy.get_params() == {"input": "probabilities", "objective": "ece"}
    assert copy.set_params(objective="nll") is copy
    assert copy.objective == "nll"
    with pytest.raises(ParameterError, match="bins"):
        copy.set_params(bins=3)
