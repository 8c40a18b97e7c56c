"""Names that several parts of the library share; cheap to import, for help texts."""

from __future__ import annotations

from typing import Literal

# Words that a command and the function behind it both take.
Invalid = Literal["refuse", "delegate"]
Objective = Literal["nll", "ece"]
Positive = Literal["outlier", "inlier"]
ReadAs = Literal["probabilities", "normalized", "logits"]  # columns of probabilities

# The roles at a desk, the cases of it to export, and what for.
Role = Literal["reader", "arbiter", "manager", "auditor", "api"]
Which = Literal["all", "labelled", "audited", "readings"]
Tool = Literal["label-studio", "argilla"]  # in which people label data
Purpose = Literal["evaluation", "training", "readers", "label-studio", "argilla"]

Method = Literal["spending", "fixed_sequence"]

# Each way to test thresholds in a sentence, the default first; documents quote these.
METHODS: dict[Method, str] = {
    "spending": "thresholds tested from strict to loose, one pass with restarts (the default)",
    "fixed_sequence": "thresholds tested from strict to loose until one fails, from several starts",
}
# The names under which files keep all probabilities together: a matrix, a list, a struct.
MATRICES = ("y_proba", "proba", "probabilities", "probability")

# The names under which files keep what a language model said about a case: an object of log
# probabilities by token, and a list of repeated answers.
TOKENS = ("logprobs",)
VOTES = ("answers", "votes")

# The names under which an npz keeps the classes of a matrix, in the order of its columns.
CLASS_LISTS = ("classes", "classes_", "class_names", "label_names", "target_names")
# Common texts for a missing value. `none` and `missing` are left out, which may be classes.
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "nil", "-", "?", ".")
# The columns, and folders such as `model=a`, that name the model of a row.
MODELS = ("model", "model_name", "modell")

# The keys of `expertload.calibrators.CALIBRATORS`.
CALIBRATOR_NAMES = (
    "temperature",
    "platt",
    "vector_scaling",
    "matrix_scaling",
    "histogram",
    "isotonic",
    "spline",
    "kcal",
)
