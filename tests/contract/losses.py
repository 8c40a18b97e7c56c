"""The value and the gradient of every loss in float64, and the torch metrics.

Sums may be taken in another order, so these are compared to 1e-12 relative, not to the bit.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.contract import data, subject

AUCOC = {
    "probability": {"smoothing": "probability"},
    "log odds": {"smoothing": "log_odds"},
    "reflect": {"smoothing": "probability", "boundary": "reflect"},
    "hard": {"smoothing": "probability", "correctness": "hard"},
    "hard log odds": {"smoothing": "log_odds", "correctness": "hard"},
    "bandwidth": {"smoothing": "probability", "bandwidth": 0.05},
    "bandwidth log odds": {"smoothing": "log_odds", "bandwidth": 0.5},
    "gradient of correctness": {"smoothing": "log_odds", "gradient": "correctness"},
    "gradient of ranking": {"smoothing": "log_odds", "gradient": "ranking"},
}
BASELINES = {
    "focal_loss": [{}, {"gamma": 2.0, "reduction": "sum"}],
    "adaptive_focal_loss": [{}],
    "generalised_cross_entropy_loss": [{}, {"q": 0.7}],
    "mmce_loss": [{}],
    "soft_avuc_loss": [{}, {"temperature": 0.1, "threshold": 0.6}],
    "soft_ece_loss": [{}, {"temperature": 0.1, "n_bins": 5, "norm": 1.0}],
    "confidence_penalty": [{}],
    "aucoc_upper_bound_loss": [{}, {"boundary": "reflect"}],
}
BUILT = (
    "ce+mmce",
    "focal+savuc",
    "adafocal53+sece",
    "gce+aucoc_upper_bound",
    "ce+confidence_penalty",
)


def entries(folder):
    rng = np.random.default_rng(0)
    logits = (2 * rng.normal(size=(8, 3))).round(3).tolist()
    target = rng.integers(0, 3, 8).tolist()
    ignored = [-100 if i in (2, 5) else each for i, each in enumerate(target)]
    binary = [row[0] for row in logits]
    hits = [each % 2 for each in target]
    image = np.array(logits).T.reshape(1, 3, 4, 2).tolist()  # one image of 4 by 2 pixels
    made = {}
    for name, options in AUCOC.items():
        made[f"aucoc {name}"] = partial(subject.loss, "aucoc_loss", logits, target, **options)
    for name in ("probability", "log odds"):
        of = partial(subject.loss, "aucoc_loss", **AUCOC[name])
        made[f"aucoc {name} ignored"] = partial(of, logits, ignored)
        made[f"aucoc {name} binary"] = partial(of, binary, hits)
        made[f"aucoc {name} image"] = partial(of, image, [np.reshape(target, (4, 2)).tolist()])
        made[f"aucoc {name} many"] = partial(_many, AUCOC[name])
    for i, case in enumerate(data.committed("aucoc_loss_values.json")):
        if len(case["logits"]) <= 12:
            made[f"aucoc committed {i}"] = partial(
                subject.loss, "aucoc_loss", case["logits"], case["target"], smoothing="probability"
            )
    for name, many in BASELINES.items():
        for options in many:
            label = " ".join([name, *map(str, options.values())])
            made[label] = partial(subject.loss, name, logits, target, **options)
        made[f"{name} ignored"] = partial(subject.loss, name, logits, ignored)
    made |= {
        f"built {name}": partial(subject.built_loss, name, logits, target, weight=0.5)
        for name in BUILT
    }
    return {**made, **_torch_metrics()}


def _many(options):
    """A batch so large that pairs are not summed one by one; a part of its gradient."""
    rng = np.random.default_rng(1)
    logits = (3 * rng.normal(size=(3000, 4))).round(3).tolist()
    target = rng.integers(0, 4, 3000).tolist()
    found = subject.loss("aucoc_loss", logits, target, **options)
    return {"value": found["value"], "gradient": found["gradient"][::500]}


def _torch_metrics():
    p = data.predictions()
    halves = [
        (p.proba[:150].tolist(), p.y[:150].tolist()),
        (p.proba[150:].tolist(), p.y[150:].tolist()),
    ]
    raw = [(p.logits.tolist(), p.y.tolist())]
    few = [(p.proba[:15].tolist(), p.y[:15].tolist())]
    weights = np.random.default_rng(4).integers(-3, 4, (3, 3, 2)).tolist()
    return {
        "metric AUCOC": partial(subject.torch_metric, "AUCOC", halves),
        "metric AUCOC bins": partial(subject.torch_metric, "AUCOC", halves, bins=64),
        "metric AUCOC logits": partial(subject.torch_metric, "AUCOC", raw, logits=True),
        "metric LoadAtAccuracy": partial(
            subject.torch_metric, "LoadAtAccuracy", halves, target_accuracy=0.9
        ),
        "metric COC": partial(subject.torch_metric, "COC", few),
        "ensemble": partial(
            subject.ensemble_log_probability, weights, [[1.0, 2.0], [0.5, -1.0], [0.0, 0.25]]
        ),
    }
