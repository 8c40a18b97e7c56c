"""The only module of the contract that calls the package's Python functions.

If functions move or take other arguments, edit this module so that it returns the same as before;
never edit a snapshot for that. Functions take arrays, and return numbers, arrays, dataclasses or
named tuples, which `plain` turns into JSON. Where fields of a result are listed here, these fields
are the contract and others may come and go.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import expertload as el
from expertload import (
    Cases,
    calibrators,
    metrics,
    monitoring,
    operating_point,
    scores,
    significance,
)
from tests.contract.compare import PROSE, normalised, plain

# ------------------------------------------------------------------ the curve


def area(correct, confidence, *, weight=None, convention="exact"):
    return el.aucoc_score(
        Cases.from_correctness(correct, confidence, sample_weight=weight), convention=convention
    )


def area_of_predictions(y_true, y_proba, *, weight=None, convention="exact"):
    return el.aucoc_score(y_true, y_proba, sample_weight=weight, convention=convention)


def curve(correct, confidence, *, weight=None):
    return _curve(el.coc_curve(Cases.from_correctness(correct, confidence, sample_weight=weight)))


def curve_of_predictions(y_true, y_proba, *, confidence=None, labels=None):
    return _curve(el.coc_curve(y_true, y_proba, confidence=confidence, labels=labels))


def _curve(found):
    names = ("expert_load", "accuracy", "thresholds")
    return {name: plain(getattr(found, name)) for name in names}


def load_at_accuracy(correct, confidence, target, *, weight=None):
    return el.load_at_accuracy(
        Cases.from_correctness(correct, confidence, sample_weight=weight), target_accuracy=target
    )


def accuracy_at_load(correct, confidence, load, *, weight=None):
    return el.accuracy_at_load(
        Cases.from_correctness(correct, confidence, sample_weight=weight), expert_load=load
    )


def frame_numbers(frame, **columns):
    """Numbers from a frame's own engine, with the confidences rounded and as they are."""
    from expertload.io import tally_frame

    exact, rounded = tally_frame(frame, **columns), tally_frame(frame, **columns, bits=6)
    return plain(
        {
            "n_cases": exact.n_cases,
            "aucoc": {name: exact.aucoc(convention=name) for name in ("exact", "authors")},
            "load": exact.load_at_accuracy(0.9),
            "accuracy": exact.accuracy_at_load(0.3),
            "rounded": {
                "aucoc": rounded.aucoc(),
                "error_bound": rounded.error_bound,
                "aucoc_bounds": rounded.aucoc_bounds(),
                "load_bounds": rounded.load_bounds(0.9),
                "accuracy_bounds": rounded.accuracy_bounds(0.3),
            },
        }
    )


# ------------------------------------------------------------------ metrics and scores


def metric(name, y_true, y_proba, *, weight=None, **options):
    return getattr(metrics, name)(y_true, y_proba, sample_weight=weight, **options)


def metric_of_answers(name, correct, confidence, *, weight=None, **options):
    cases = Cases.from_correctness(correct, confidence, sample_weight=weight)
    return plain(getattr(metrics, name)(cases, **options))


def outlier_metric(name, is_outlier, outlier_score, **options):
    return getattr(metrics, name)(is_outlier, outlier_score, **options)


def converted_area(name, value, **options):
    return getattr(metrics, name)(value, **options)


def confidence_from_logits(name, logits):
    return plain(getattr(scores, f"{name}_confidence")(logits))


# ------------------------------------------------------------------ significance


def interval(correct, confidence, *, weight=None, clusters=None, level=0.95):
    return plain(
        significance.aucoc_interval(
            Cases.from_correctness(correct, confidence, sample_weight=weight, clusters=clusters),
            confidence_level=level,
        )
    )


def band(correct, confidence, *, weight=None, clusters=None):
    return plain(
        significance.coc_band(
            Cases.from_correctness(correct, confidence, sample_weight=weight, clusters=clusters)
        )
    )


def bootstrap(correct, confidence, *, clusters=None):
    return plain(
        significance.bootstrap_interval(
            Cases.from_correctness(correct, confidence, clusters=clusters),
            n_resamples=200,
            random_state=0,
        )
    )


def bootstrap_of_metric(name, y_true, y_proba):
    metric = getattr(metrics, name)
    return plain(
        significance.bootstrap_interval(
            Cases.from_predictions(y_true, y_proba), metric=metric, n_resamples=50, random_state=0
        )
    )


def paired_test(a, b, *, weight=None, clusters=None):
    """Compare two models, each (correct, confidence), on the same cases."""
    return plain(
        significance.aucoc_paired_test(
            Cases.from_correctness(*a, sample_weight=weight, clusters=clusters),
            Cases.from_correctness(*b, sample_weight=weight, clusters=clusters),
        )
    )


def compare_models(models, *, pairs, weight=None, clusters=None):
    found = significance.compare_models(
        {
            name: Cases.from_correctness(*model, sample_weight=weight, clusters=clusters)
            for name, model in models.items()
        },
        pairs=pairs,
    )
    return {" minus ".join(pair): plain(each) for pair, each in found.items()}


def permutation_test(a, b, *, exchange="predictions", clusters=None):
    return plain(
        significance.permutation_test(
            Cases.from_correctness(*a, clusters=clusters),
            Cases.from_correctness(*b, clusters=clusters),
            n_rounds=200,
            random_state=0,
            exchange=exchange,
        )
    )


# ------------------------------------------------------------------ operating points


def choose(correct, confidence, *, weight=None, **goal):
    return described(
        operating_point.choose(
            Cases.from_correctness(correct, confidence, sample_weight=weight), **goal
        )
    )


def at_threshold(correct, confidence, threshold):
    return described(
        operating_point.at_threshold(
            Cases.from_correctness(correct, confidence), threshold=threshold
        )
    )


def certify(correct, confidence, *, target_accuracy, clusters=None, **options):
    """Certify one target, or several at once, which gives a point for each."""
    cases = Cases.from_correctness(correct, confidence, clusters=clusters)
    found = operating_point.certify(cases, target_accuracy=target_accuracy, **options)
    if isinstance(target_accuracy, float):
        return described(found)
    return {str(target): described(point) for target, point in found.items()}


def certify_at(correct, confidence, *, target_accuracy, **place):
    """Certify, and move the point to another threshold that passed."""
    found = operating_point.certify(
        Cases.from_correctness(correct, confidence), target_accuracy=target_accuracy
    )
    return described(found.at(**place))


def certify_predictions(y_true, y_proba, *, target_accuracy, labels):
    return described(
        operating_point.certify(y_true, y_proba, target_accuracy=target_accuracy, labels=labels)
    )


def certify_groups(correct, confidence, *, groups, target_accuracy):
    found = operating_point.certify_groups(
        Cases.from_correctness(correct, confidence, groups=groups), target_accuracy=target_accuracy
    )
    return {
        "certified": plain(found.certified),
        "expert_load": found.expert_load,
        "points": {str(group): described(point) for group, point in found.items()},
    }


def certify_error_budget(correct, confidence, **promise):
    return described(
        operating_point.certify_error_budget(Cases.from_correctness(correct, confidence), **promise)
    )


def certify_mean_cost(correct, confidence, **promise):
    return described(
        operating_point.certify_mean_cost(Cases.from_correctness(correct, confidence), **promise)
    )


def certified_curve(correct, confidence):
    found = operating_point.certified_curve(Cases.from_correctness(correct, confidence))
    names = ("expert_load", "accuracy", "thresholds", "lower", "confidence_level")
    numbers = {name: plain(getattr(found, name)) for name in names}
    return {
        **numbers,
        "load_at_0.7": found.load_at_accuracy(0.7),
        "threshold_at_0.7": found.threshold_at_accuracy(0.7),
    }


POINT = (
    "threshold",
    "n_accepted",
    "n_delegated",
    "n_errors",
    "n_errors_spared",
    "expert_load",
    "accuracy",
    "target_accuracy",
    "confidence_level",
    "method",
    "risk",
    "reason",
    "clusters",
    "is_certified",
    "sufficient_cases",
    "target_within_reach",
    "max_errors",
    "next_cases",
)


def described(point):
    """The fields of a point, those that its kind has."""
    found = {name: plain(getattr(point, name)) for name in POINT if hasattr(point, name)}
    if hasattr(point, "passed"):
        found["passed"] = plain(point.passed.ranges)
    return found


# ------------------------------------------------------------------ stored files


def make_policies(answers, cases, costs):
    """Policies of every kind, by name; each has ``save(path)``."""
    op = operating_point
    pair = (answers.correct, answers.confidence)
    matrix = {"labels": sorted(set(cases.label.tolist()))}
    return {
        "described": op.choose(
            Cases.from_predictions(cases.label, cases.proba, **matrix), load_budget=0.3
        ),
        "described threshold": op.at_threshold(Cases.from_correctness(*pair), threshold=-np.inf),
        "certified": op.certify(
            cases.label, cases.proba, target_accuracy=0.8, model_name="forest", **matrix
        ),
        "certified numbers": op.certify(cases.y[:60], cases.proba[:60], target_accuracy=0.7),
        "certified confidence": op.certify(Cases.from_correctness(*pair), target_accuracy=0.78),
        "certified joint": op.certify(
            Cases.from_correctness(*pair), target_accuracy=0.86, risk="joint"
        ),
        "certified graded": op.certify(
            Cases.from_correctness(answers.grade, answers.confidence), target_accuracy=0.78
        ),
        "certified thresholds": op.certify(
            Cases.from_correctness(*pair),
            target_accuracy=0.78,
            method="fixed_sequence",
            thresholds=[0.2, 0.5, 0.8],
        ),
        "certified clusters": op.certify(
            Cases.from_correctness(*pair, clusters=answers.clusters), target_accuracy=0.55
        ),
        "certified clusters one each": op.certify(
            Cases.from_correctness(*pair, clusters=answers.clusters),
            target_accuracy=0.76,
            cluster_promise="one_case_each",
        ),
        "certified one of several": op.certify(
            Cases.from_correctness(*pair), target_accuracy=[0.5, 0.77, 0.99]
        )[0.77],
        "not certified": op.certify(Cases.from_correctness(*pair), target_accuracy=0.99),
        "groups": op.certify_groups(
            Cases.from_predictions(cases.label, cases.proba, groups=cases.site, **matrix),
            target_accuracy=0.7,
        ),
        "error budget": op.certify_error_budget(
            Cases.from_correctness(*pair), max_errors=6, next_cases=60
        ),
        "mean cost": op.certify_mean_cost(
            Cases.from_correctness(*pair), error_costs=costs, max_mean_cost=0.12
        ),
    }


def load_policy(path):
    return operating_point.load_operating_point(path)


def decide(path, proba, confidence, groups):
    """What a stored policy decides on fixed inputs, by whatever it ranks cases by."""
    policy = load_policy(path)
    has_groups = hasattr(policy, "points")
    more = {"groups": groups} if has_groups else {}
    if policy.origin.ranked_by == "given_confidence":
        decided = {"accepted": plain(policy.accepts(confidence, **more))}
    else:
        decided = plain(policy.decide(proba, **more))
    points = policy.points if has_groups else {"": policy}
    return {**decided, "points": {str(name): described(each) for name, each in points.items()}}


def make_monitors():
    """Monitors by name; each has ``save(path)``."""
    rng = np.random.default_rng(3)
    correct = (rng.random(30) < 0.9).astype(float)
    grades = [None if i % 7 == 3 else grade for i, grade in enumerate(correct.tolist())]
    keys = [f"case{i}" for i in range(30)]
    days = [f"2026-01-{1 + i // 3:02d}" for i in range(30)]
    share = (rng.integers(1, 5, 30) / 4).tolist()
    make = monitoring.AccuracyMonitor
    return {
        "plain": make(target_accuracy=0.95).update(correct),
        "keys": make(target_accuracy=0.9, blocks=4).update(grades, key=keys, decided_at=days),
        "samples": make(
            target_accuracy=0.9, confidence_level=0.9, least_inclusion_probability=0.25
        ).update(grades, key=keys, inclusion_probability=share),
        "arrival": make(target_accuracy=0.99, order="arrival").update(correct, key=keys),
    }


def monitor_policy(path, correct):
    """The monitor of a stored policy, as a file."""
    monitor = monitoring.AccuracyMonitor.from_policy(load_policy(path))
    return monitor.update(correct)


def load_monitor(path):
    monitor = monitoring.AccuracyMonitor.load(path)
    return {**_verdict(monitor), "policy": monitor.policy_digest}


OPTIONS = {"kcal": {"bandwidth": 1.5, "projection": "pca", "n_components": 2}}
CALIBRATORS = tuple(calibrators.CALIBRATORS)


def make_calibrator(name, logits, target, *, weight=None, **options):
    """A fitted calibrator; ``correctness`` is the model of correctness."""
    if name == "correctness":
        return calibrators.CorrectnessModel().fit(logits, target)
    made = calibrators.make_calibrator(name, **{**OPTIONS.get(name, {}), **options})
    return made.fit(logits, target, sample_weight=weight)


def calibrate(name, logits, target, new, **options):
    return plain(make_calibrator(name, logits, target, **options).transform(new))


def load_calibrator(path, new):
    """What a stored calibrator makes of new logits."""
    if json.loads(Path(path).read_text("utf-8"))["method"] == "correctness":
        return plain(calibrators.CorrectnessModel.load(path).confidence(new))
    return plain(calibrators.load_calibrator(path).transform(new))


CONFIDENCE_SCORES = tuple(calibrators.CONFIDENCE_SCORES)


def confidence_score(name, y_true, y_proba, new):
    return plain(calibrators.ConfidenceScore(name).fit(y_proba, y_true).confidence(new))


# ------------------------------------------------------------------ monitoring


def evidence_path(correct, target, *, weight=None, blocks=None):
    return plain(
        monitoring.evidence_path(correct, target_accuracy=target, weight=weight, blocks=blocks)
    )


def confirming_evidence(errors, audits, target):
    return plain(monitoring.confirming_evidence(errors, audits, target_accuracy=target))


def accuracy_lower_bound(errors, audits):
    return plain(monitoring.accuracy_lower_bound(errors, audits))


def monitor_history(correct, **promise):
    monitor = monitoring.AccuracyMonitor(**promise).update(correct)
    return {"state": _verdict(monitor), "history": plain(monitor.history())}


def merged_monitors(first, second, target):
    """Two monitors of different cases, counted together."""
    parts = [
        monitoring.AccuracyMonitor(target_accuracy=target).update(
            correct, decided_at=list(range(start, start + 2 * len(correct), 2))
        )
        for start, correct in enumerate((first, second))
    ]
    return _verdict(parts[0].merge(parts[1]))


def _verdict(monitor):
    return normalised(plain(monitor.to_dict()), PROSE)


def load_shift(calibration, threshold, new):
    """The evidence that load or confidences have changed."""
    calibration = np.asarray(calibration)
    monitor = monitoring.LoadMonitor(
        threshold=threshold,
        expected_load=float((calibration < threshold).mean()),
        n_cases=len(calibration),
        quantiles=np.quantile(calibration, np.linspace(0, 1, 101), method="inverted_cdf"),
    ).update(new)
    names = ("load", "load_evidence", "confidence_evidence", "load_change", "warns")
    return {name: plain(getattr(monitor, name)) for name in names}


def required_audits(target, drop_to, **options):
    return plain(monitoring.required_audits(target, drop_to, n_rounds=100, **options))


# ------------------------------------------------------------------ losses and torch metrics


def loss(name, logits, target, **options):
    """A loss's value and gradient; `logits` may be any shape that the loss takes."""
    import torch

    from expertload import losses

    return _value_and_gradient(
        lambda x: getattr(losses, name)(x, torch.tensor(target), **options), logits
    )


def built_loss(name, logits, target, **options):
    """A loss by its name in recipes."""
    import torch

    from expertload.losses import build_loss

    made = build_loss(name, **options)
    return _value_and_gradient(lambda x: made(x, torch.tensor(target)), logits)


def _value_and_gradient(function, logits):
    import torch

    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    value = function(x)
    value.backward()
    return {"value": value.item(), "gradient": x.grad.tolist()}


def torch_metric(name, batches, **options):
    """A metric over batches of (probabilities or logits, target)."""
    import torch

    from expertload import torch_metrics

    metric = getattr(torch_metrics, name)(**options)
    for preds, target in batches:
        metric.update(torch.tensor(preds), torch.tensor(target))
    found = metric.compute()
    if isinstance(found, torch.Tensor):
        return found.item()
    return _curve(type(found)(*map(np.asarray, found)))


def ensemble_log_probability(weights, images):
    """The mean probability of linear networks with these weights, as log probabilities."""
    import torch

    from expertload.ensembling import Ensemble

    networks = []
    for weight in weights:
        network = torch.nn.Linear(len(weight[0]), len(weight), bias=False, dtype=torch.float64)
        network.weight.data = torch.tensor(weight, dtype=torch.float64)
        networks.append(network)
    with torch.no_grad():
        return Ensemble(networks).eval()(torch.tensor(images, dtype=torch.float64)).tolist()


# ------------------------------------------------------------------ scikit-learn


def scored(name, y_true, y_proba, **reading):
    """What a scorer says of a classifier that predicts these probabilities."""
    from expertload import sklearn as scorers

    scorer = getattr(scorers, name)
    scorer = scorer(*reading.values()) if reading else scorer
    rows = np.arange(len(y_true))[:, None]
    return float(scorer(fixed_classifier(y_proba).fit(rows, y_true), rows, y_true))


def delegating_classifier(y_true, y_proba, **options):
    """Labels with delegated cases, of a classifier that predicts these probabilities."""
    from sklearn.frozen import FrozenEstimator

    rows = np.arange(len(y_true))[:, None]
    frozen = FrozenEstimator(fixed_classifier(y_proba).fit(rows, y_true))
    model = el.DelegatingClassifier(frozen, **options).calibrate(rows, y_true)
    return {
        "point": described(model.operating_point_),
        "predicted": plain(np.asarray(model.predict(rows))),
        "score": float(model.score(rows, y_true)),
    }


def fixed_classifier(proba):
    """A classifier that knows its probabilities by the number of the case."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Fixed(ClassifierMixin, BaseEstimator):
        def fit(self, rows, y_true):
            self.classes_ = np.unique(y_true)
            return self

        def predict_proba(self, rows):
            return np.asarray(proba)[np.asarray(rows)[:, 0]]

        def predict(self, rows):
            return self.classes_[self.predict_proba(rows).argmax(axis=1)]

    return Fixed()


# ------------------------------------------------------------------ the desk


class Clock:
    """Microseconds since 1970, moved by hand."""

    def __init__(self):
        self.now = 1_700_000_000_000_000

    def __call__(self):
        return self.now

    def turn(self, seconds):
        self.now += int(seconds * 1_000_000)


def open_desk(folder, clock, **rules):
    """A desk in a folder; a context manager."""
    from expertload.desk import Desk, Rules

    return Desk.open(folder, rules=Rules(**rules), clock=clock, secret=b"contract")


def desk_app(desk):
    from expertload.desk.app import create_app

    return create_app(desk)


def desk_token(desk, name, role, **options):
    from expertload.desk.people.accounts import add_token

    return desk.write(add_token, name, role, **options)


# ------------------------------------------------------------------ commands


def command_line():
    from expertload.cli.app import app

    return app


def write_runs(folder):
    """Folders of runs as training leaves them: two seeds each of two losses."""
    from tests.lab.synthetic_runs import make_config, write_run

    for loss_name, skill, weight in (("ce", 1.0, None), ("ce+aucoc", 2.0, 5.0)):
        for seed in (0, 1):
            config = make_config(loss_name, seed=seed, weight=weight)
            write_run(folder, config, skill=skill, n=120)
    return folder
