from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import outlier_cases

from expertload import metrics
from expertload.exceptions import InsufficientDataError, LabelError, ParameterError


@pytest.mark.slow
@given(outlier_cases(), st.data())
def test_auroc_and_aupr_equal_scikit_learn(cases, data):
    is_outlier, score = cases
    weight = np.array(
        data.draw(st.lists(st.floats(0.1, 5), min_size=len(score), max_size=len(score)))
    )
    for w in (None, weight):
        assert metrics.outlier_auroc_score(is_outlier, score, sample_weight=w) == pytest.approx(
            sklearn.metrics.roc_auc_score(is_outlier, score, sample_weight=w), abs=1e-12
        )
        assert metrics.outlier_aupr_score(is_outlier, score, sample_weight=w) == pytest.approx(
            sklearn.metrics.average_precision_score(is_outlier, score, sample_weight=w), abs=1e-12
        )
        assert metrics.outlier_aupr_score(
            is_outlier, score, positive="inlier", sample_weight=w
        ) == pytest.approx(
            sklearn.metrics.average_precision_score(1 - is_outlier, -score, sample_weight=w),
            abs=1e-12,
        )


@given(outlier_cases(), st.floats(0.01, 1), st.sampled_from(["outlier", "inlier"]))
def test_fpr_at_tpr_equals_looking_at_every_threshold(cases, tpr, positive):
    is_outlier, score = cases
    flag, rank = (is_outlier == 1, score) if positive == "outlier" else (is_outlier == 0, -score)
    rates = [
        (rank[~flag] >= t).mean()
        for t in np.unique(rank)
        if (rank[flag] >= t).mean() >= tpr - 1e-12
    ]
    ours = metrics.fpr_at_tpr_error(is_outlier, score, tpr=tpr, positive=positive)
    assert ours == pytest.approx(min(rates), abs=1e-12)


def test_finding_nothing_flags_nothing():
    assert metrics.fpr_at_tpr_error([0, 1], [0.9, 0.1], tpr=0) == 0.0


def test_bad_sides():
    with pytest.raises(InsufficientDataError, match="at least one of each"):
        metrics.outlier_auroc_score([1, 1], [0.1, 0.2])
    with pytest.raises(InsufficientDataError):
        metrics.outlier_auroc_score([1, 0], [0.1, 0.2], sample_weight=[1, 0])
    with pytest.raises(LabelError, match="only 0 and 1"):
        metrics.outlier_auroc_score([1, 2], [0.1, 0.2])
    with pytest.raises(ParameterError, match="'positive'"):
        metrics.outlier_aupr_score([1, 0], [0.1, 0.2], positive="ood")
    with pytest.raises(LabelError):
        metrics.fpr_at_tpr_error([1, 2], [0.1, 0.2], tpr=0)
    with pytest.raises(ParameterError, match="'tpr'"):
        metrics.fpr_at_tpr_error([1, 0], [0.1, 0.2], tpr=95)
