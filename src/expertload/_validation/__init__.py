"""Turns users' arguments into valid arrays.

These are the checks that several modules share, and the form of every message. A check takes the
name of the argument, so that a message reads::

    'target_accuracy' must be in [0, 1]. Got 97 instead.
    Hint: pass 0.97 for 97 %.

A check that only one module needs is in that module, and words its error with ``message``. Nothing
is guessed: values are never used to distinguish probabilities from logits.
"""

from expertload._validation.arrays import (
    EXACT,
    EXACT_HINT,
    EXACT_ONLY,
    SKIPPED,
    UNROUNDED,
    as_array,
    as_floats,
    check_columns,
    check_fitted,
    check_metric_value,
    check_same_length,
    check_same_order,
    check_same_shape,
    check_unit_interval,
    first_index,
    rounded_whole,
)
from expertload._validation.import_paths import (
    call_builder,
    import_callable,
)
from expertload._validation.options import (
    check_classifier,
    check_count,
    check_fraction,
    check_ignore_index,
    check_minimum,
    check_model_pairs,
    check_models,
    check_option,
    check_positive,
    check_targets,
    check_threshold,
    random_generator,
)
from expertload._validation.probabilities import (
    ROW_SUM_TOLERANCE,
    ROW_SUM_TOLERANCE_HALF_PRECISION,
    SUM_TO_ONE,
    check_logits,
    check_probabilities,
)
from expertload._validation.wording import (
    incompatible_options_error,
    insufficient,
    label_range_error,
    message,
    needs_extra,
    parameter_error,
    percent_hint,
    require_extra,
)

__all__ = [
    "EXACT",
    "EXACT_HINT",
    "EXACT_ONLY",
    "ROW_SUM_TOLERANCE",
    "ROW_SUM_TOLERANCE_HALF_PRECISION",
    "SKIPPED",
    "SUM_TO_ONE",
    "UNROUNDED",
    "as_array",
    "as_floats",
    "call_builder",
    "check_classifier",
    "check_columns",
    "check_count",
    "check_fitted",
    "check_fraction",
    "check_ignore_index",
    "check_logits",
    "check_metric_value",
    "check_minimum",
    "check_model_pairs",
    "check_models",
    "check_option",
    "check_positive",
    "check_probabilities",
    "check_same_length",
    "check_same_order",
    "check_same_shape",
    "check_targets",
    "check_threshold",
    "check_unit_interval",
    "first_index",
    "import_callable",
    "incompatible_options_error",
    "insufficient",
    "label_range_error",
    "message",
    "needs_extra",
    "parameter_error",
    "percent_hint",
    "random_generator",
    "require_extra",
    "rounded_whole",
]
