"""Areas, curves, intervals, certificates, calibrators, metrics and monitors."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.contract import data, subject

CONVENTIONS = ("exact", "thresholds", "authors")
METRICS = {
    "aurc_loss": [{"convention": "exact"}, {"convention": "thresholds"}],
    "excess_aurc_loss": [{"convention": "exact"}, {"convention": "thresholds"}],
    "augrc_loss": [{}],
    "auarc_score": [{}],
    "expected_calibration_error": [{"strategy": "mass"}, {"strategy": "width"}, {"n_bins": 5}],
    "maximum_calibration_error": [{"strategy": "mass"}, {"strategy": "width"}],
    "classwise_calibration_error": [{"strategy": "mass"}, {"strategy": "width"}],
    "kolmogorov_smirnov_error": [{}],
    "brier_loss": [{}],
    "log_loss": [{}],
}
WHOLE_WEIGHTS = ("auarc_score", "thresholds")


def entries(folder):
    return {**_areas(), **_metrics(), **_significance(), **_points(), **_learned(), **_watched()}


def _numbers(**functions):
    """One entry of several numbers."""
    return lambda: {name: function() for name, function in functions.items()}


def _areas():
    a, p = data.answers(), data.predictions()
    small = data.answers(40)
    inputs = {
        "plain": (a.correct, a.confidence, None),
        "graded": (a.grade, a.confidence, None),
        "weighted": (a.correct, a.confidence, a.weight),
        "graded and weighted": (a.grade, a.confidence, a.weight),
        "one tie": (small.correct, np.full(40, 0.5), None),
        "all right": (np.ones(40), small.confidence, None),
        "all wrong": (np.zeros(40), small.confidence, None),
        "one case": ([1], [0.3], None),
        **{
            f"committed {i}": (each["correct"], each["confidence"], None)
            for i, each in enumerate(data.committed("committed_values.json"))
        },
    }
    made = {}
    for name, (correct, confidence, weight) in inputs.items():
        ways = CONVENTIONS if weight is None else ("exact", "authors")
        made[f"area {name}"] = _numbers(
            **{
                way: partial(subject.area, correct, confidence, weight=weight, convention=way)
                for way in ways
            }
        )
        read = {"weight": weight}
        made[f"read {name}"] = _numbers(
            load_80=partial(subject.load_at_accuracy, correct, confidence, 0.8, **read),
            load_100=partial(subject.load_at_accuracy, correct, confidence, 1.0, **read),
            accuracy_0=partial(subject.accuracy_at_load, correct, confidence, 0.0, **read),
            accuracy_45=partial(subject.accuracy_at_load, correct, confidence, 0.45, **read),
            accuracy_100=partial(subject.accuracy_at_load, correct, confidence, 1.0, **read),
        )
    for name in ("plain", "graded and weighted", "one tie", "committed 2"):
        correct, confidence, weight = inputs[name]
        some = slice(0, 25)
        cut = None if weight is None else weight[some]
        made[f"curve {name}"] = partial(subject.curve, correct[some], confidence[some], weight=cut)
    y, proba = p.label[:25], p.proba[:25]
    made["area of predictions"] = _numbers(
        **{
            way: partial(subject.area_of_predictions, y, proba, convention=way)
            for way in CONVENTIONS
        }
    )
    made["curve of predictions"] = partial(subject.curve_of_predictions, y, proba)
    made["curve of predictions by a confidence"] = partial(
        subject.curve_of_predictions, y, proba, confidence=proba[:, 0], labels=data.CLASSES
    )
    made["curve of binary scores"] = partial(
        subject.curve_of_predictions, (p.y[:15] == 1).astype(int), p.proba[:15, 1]
    )
    made["frame polars"] = _frame
    return made


def _frame():
    import polars

    a = data.answers()
    frame = polars.DataFrame({"c": a.confidence, "right": a.correct, "w": a.weight})
    return subject.frame_numbers(frame, confidence="c", correct="right", weight="w")


def _metrics():
    p, a = data.predictions(), data.answers()
    made = {}
    for name, options in METRICS.items():
        for each in options:
            label = " ".join([name, *map(str, each.values())])
            whole = any(word in label for word in WHOLE_WEIGHTS)
            weight = np.ceil(p.weight) if whole else p.weight
            made[f"metric {label}"] = _numbers(
                plain=partial(subject.metric, name, p.label, p.proba, **each),
                weighted=partial(subject.metric, name, p.label, p.proba, weight=weight, **each),
            )
    for name, each in (
        ("aurc_loss", {"convention": "exact"}),
        ("excess_aurc_loss", {"convention": "exact"}),
        ("augrc_loss", {}),
        ("expected_calibration_error", {"n_bins": 7}),
        ("kolmogorov_smirnov_error", {}),
        ("reliability_curve", {"n_bins": 6}),
        ("reliability_curve", {"n_bins": 6, "strategy": "width"}),
    ):
        label = " ".join([name, *map(str, each.values())])
        made[f"metric of answers {label}"] = partial(
            subject.metric_of_answers, name, a.correct, a.confidence, weight=a.weight, **each
        )
    outlier, score = a.correct == 0, -a.confidence
    for name in ("outlier_aupr_score", "fpr_at_tpr_error"):
        made[f"metric {name}"] = _numbers(
            **{
                side: partial(subject.outlier_metric, name, outlier, score, positive=side)
                for side in ("outlier", "inlier")
            }
        )
    made["metric outlier_auroc_score"] = partial(
        subject.outlier_metric, "outlier_auroc_score", outlier, score
    )
    made["metric conversions"] = _numbers(
        aurc=partial(subject.converted_area, "aurc_from_aucoc", 0.9),
        aucoc=partial(subject.converted_area, "aucoc_from_aurc", 0.15),
        excess=partial(subject.converted_area, "excess_aurc_from_aucoc", 0.9, accuracy=0.8),
    )
    for name in (
        "energy",
        "entropy",
        "gini",
        "margin",
        "max_logit",
        "max_logit_norm",
        "max_softmax",
        "tempered_softmax",
    ):
        made[f"score {name}"] = partial(subject.confidence_from_logits, name, p.logits[:6])
    for name, reading in (
        ("aucoc_scorer", {}),
        ("load_at_accuracy_scorer", {"target": 0.9}),
        ("accuracy_at_load_scorer", {"load": 0.3}),
    ):
        made[f"scorer {name}"] = partial(subject.scored, name, p.label, p.proba, **reading)
    return made


def _significance():
    a, b, c = data.answers(), data.answers(seed=1), data.answers(seed=2)
    graded = (a.grade, a.confidence)
    one, two, three = ((each.correct, each.confidence) for each in (a, b, c))
    ways = {
        "plain": {},
        "weighted": {"weight": a.weight},
        "clusters": {"clusters": a.clusters},
        "weighted clusters": {"weight": a.weight, "clusters": a.clusters},
    }
    made = {}
    for name, way in ways.items():
        made[f"interval {name}"] = partial(subject.interval, *one, **way)
        made[f"paired test {name}"] = partial(subject.paired_test, one, two, **way)
        small = {key: value[:15] for key, value in way.items()}
        made[f"band {name}"] = partial(subject.band, one[0][:15], one[1][:15], **small)
    for name, way in list(ways.items())[::2]:
        made[f"bootstrap {name}"] = partial(subject.bootstrap, *one, **way)
        for exchange in ("predictions", "ranks"):
            made[f"permutation {exchange} {name}"] = partial(
                subject.permutation_test, one, two, exchange=exchange, **way
            )
    made["interval graded"] = partial(subject.interval, *graded)
    made["interval 0.8"] = partial(subject.interval, *one, level=0.8)
    made["interval all right"] = partial(subject.interval, np.ones(30), a.confidence[:30])
    made["band graded"] = partial(subject.band, a.grade[:15], a.confidence[:15])
    p = data.predictions()
    made["bootstrap brier_loss"] = partial(
        subject.bootstrap_of_metric, "brier_loss", p.label, p.proba
    )
    models = {"one": one, "two": two, "three": three}
    for pairs in ("all", "first"):
        made[f"models {pairs}"] = partial(subject.compare_models, models, pairs=pairs)
    made["models clusters"] = partial(
        subject.compare_models, models, pairs="all", clusters=a.clusters
    )
    return made


def _points():
    a, p = data.answers(), data.predictions()
    pair = (a.correct, a.confidence)
    choices = {
        "target": {"target_accuracy": 0.8},
        "target out of reach": {"target_accuracy": 1.0},
        "budget": {"load_budget": 0.3},
        "cost": {"error_cost": 10.0, "review_cost": 1.0},
        "cost of erring experts": {"error_cost": 10.0, "review_cost": 1.0, "expert_accuracy": 0.9},
        "weighted": {"target_accuracy": 0.8, "weight": a.weight},
    }
    made = {
        f"choose {name}": partial(subject.choose, *pair, **how) for name, how in choices.items()
    }
    made["at threshold"] = partial(subject.at_threshold, *pair, 0.4)
    certificates = {
        "spending": {},
        "fixed_sequence": {"method": "fixed_sequence"},
        "thresholds": {"method": "fixed_sequence", "thresholds": [0.1, 0.4, 0.6, 0.9]},
        "joint": {"risk": "joint"},
        "level": {"confidence_level": 0.5},
        "clusters": {"clusters": a.clusters},
        "clusters one each": {"clusters": a.clusters, "cluster_promise": "one_case_each"},
    }
    for name, how in certificates.items():
        for target in (0.65, 0.75):
            made[f"certify {name} {target}"] = partial(
                subject.certify, *pair, target_accuracy=target, **how
            )
    several = [0.6, 0.7, 0.8]
    made["certify several"] = partial(subject.certify, *pair, target_accuracy=several)
    made["certify several clusters"] = partial(
        subject.certify, *pair, target_accuracy=several, clusters=a.clusters
    )
    made["certify hopeless"] = partial(subject.certify, *pair, target_accuracy=0.99)
    made["certify graded"] = partial(subject.certify, a.grade, a.confidence, target_accuracy=0.75)
    made["certify graded clusters"] = partial(
        subject.certify, a.grade, a.confidence, target_accuracy=0.7, clusters=a.clusters
    )
    made["certify predictions"] = partial(
        subject.certify_predictions, p.label, p.proba, target_accuracy=0.9, labels=data.CLASSES
    )
    made["certify and move to a load"] = partial(
        subject.certify_at, *pair, target_accuracy=0.65, expert_load=0.6
    )
    made["certify groups"] = partial(
        subject.certify_groups, *pair, groups=a.groups, target_accuracy=0.6
    )
    made["certify error budget"] = partial(
        subject.certify_error_budget, *pair, max_errors=20, next_cases=100
    )
    made["certify error budget hopeless"] = partial(
        subject.certify_error_budget, *pair, max_errors=0, next_cases=10_000
    )
    costs = (np.arange(200) % 4 + 1) / 4
    made["certify mean cost"] = partial(
        subject.certify_mean_cost, *pair, error_costs=costs, max_mean_cost=0.2
    )
    made["certified curve"] = partial(subject.certified_curve, a.correct[:25], a.confidence[:25])
    made["delegating classifier"] = partial(
        subject.delegating_classifier, p.label[:80], p.proba[:80], target_accuracy=0.85
    )
    return made


def _learned():
    p, new = data.predictions(), data.predictions(5, seed=5).logits
    made = {}
    for name in subject.CALIBRATORS:
        made[f"calibrator {name}"] = partial(subject.calibrate, name, p.logits, p.y, new)
        made[f"calibrator {name} weighted"] = partial(
            subject.calibrate, name, p.logits, p.y, new, weight=p.weight
        )
    logits, y = p.logits[:80], p.y[:80]
    made["calibrator temperature ece"] = partial(
        subject.calibrate, "temperature", p.logits, p.y, new, objective="ece"
    )
    made["calibrator kcal loo"] = partial(
        subject.calibrate, "kcal", logits, y, new, bandwidth="loo", projection=None
    )
    for name in subject.CONFIDENCE_SCORES:
        made[f"confidence score {name}"] = partial(
            subject.confidence_score, name, p.label[:40], p.proba[:40], p.proba[40:50]
        )
    return made


def _watched():
    correct = (np.random.default_rng(1).random(70) < 0.85).astype(float)
    weight = np.random.default_rng(2).integers(1, 4, 70) / 4
    a = data.answers()
    counts = [0, 1, 2, 5, 9], [10, 10, 30, 60, 60]
    return {
        "evidence": partial(subject.evidence_path, correct, 0.95),
        "evidence weighted": partial(subject.evidence_path, correct, 0.9, weight=weight),
        "evidence blocks": partial(subject.evidence_path, correct, 0.95, blocks=2),
        "confirming evidence": partial(subject.confirming_evidence, *counts, 0.8),
        "accuracy lower bound": partial(subject.accuracy_lower_bound, *counts),
        "monitor": partial(subject.monitor_history, correct[:25], target_accuracy=0.8),
        "monitor refuted": partial(subject.monitor_history, correct[:25], target_accuracy=0.99),
        "monitor merged": partial(subject.merged_monitors, correct[:50], correct[50:], 0.9),
        "load unchanged": partial(subject.load_shift, a.confidence, 0.7, a.confidence[::-1]),
        "load changed": partial(subject.load_shift, a.confidence, 0.7, a.confidence / 2),
        "required audits": partial(subject.required_audits, 0.95, 0.85),
        "required audits late": partial(
            subject.required_audits, 0.9, 0.7, after=60, blocks=4, accuracy_before=0.95
        ),
    }
