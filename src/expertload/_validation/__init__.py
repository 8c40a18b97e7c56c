"""Turning what users pass into arrays that the mathematics can trust.

This is the only package that words input errors. Every check takes the name of the parameter and
the public function it belongs to (``caller``), so that a message reads, for instance::

    The 'target_accuracy' parameter of load_at_accuracy must be in [0, 1]. Got 97 instead.
    Hint: pass 0.97 for 97 %.

Nothing is guessed: probabilities are never told from logits by looking at them.
"""

from expertload._validation.arrays import (
    as_array,
    as_floats,
    check_columns,
    check_enough_cases,
    check_fitted,
    check_metric_value,
    check_same_length,
    check_same_shape,
    check_unit_interval,
)
from expertload._validation.displays import (
    check_axes,
    check_classifier,
    check_curve_points,
    check_cv_results,
    check_evaluations,
    check_models,
    check_page_name,
    check_roc_points,
)
from expertload._validation.frames import (
    ROW_PROBLEMS,
    check_column,
    check_column_type,
    check_columns_found,
    check_frame,
    check_same_rounding,
    check_some_weight,
    check_table_size,
    row_problem,
    unreadable_rows,
)
from expertload._validation.images import (
    check_images,
)
from expertload._validation.import_paths import (
    call_builder,
    import_callable,
)
from expertload._validation.operating import (
    check_calibrated,
    check_confidence_matches,
    check_delegate_label,
    check_groups_match,
    check_one_criterion,
)
from expertload._validation.options import (
    check_count,
    check_fraction,
    check_known_options,
    check_minimum,
    check_option,
    check_positive,
    check_scalar_loss,
    check_targets,
    check_threshold,
    check_unused,
    random_generator,
)
from expertload._validation.probabilities import (
    ROW_SUM_TOLERANCE,
    ROW_SUM_TOLERANCE_HALF_PRECISION,
    check_class_logits,
    check_logits,
    check_probabilities,
    check_width,
)
from expertload._validation.tensors import (
    check_all_or_none_indexed,
    check_indices_of_rows,
    check_indices_usable,
    check_logits_layout,
    check_update_layout,
    label_range_error,
    non_finite_logits_error,
    soft_target_error,
)
from expertload._validation.wording import (
    incompatible_options_error,
    insufficient,
    message,
    needs_extra,
    parameter_error,
    percent_hint,
    require_extra,
    unwritable,
)

__all__ = [
    "ROW_PROBLEMS",
    "ROW_SUM_TOLERANCE",
    "ROW_SUM_TOLERANCE_HALF_PRECISION",
    "as_array",
    "as_floats",
    "call_builder",
    "check_all_or_none_indexed",
    "check_axes",
    "check_calibrated",
    "check_class_logits",
    "check_classifier",
    "check_column",
    "check_column_type",
    "check_columns",
    "check_columns_found",
    "check_confidence_matches",
    "check_count",
    "check_curve_points",
    "check_cv_results",
    "check_delegate_label",
    "check_enough_cases",
    "check_evaluations",
    "check_fitted",
    "check_fraction",
    "check_frame",
    "check_groups_match",
    "check_images",
    "check_indices_of_rows",
    "check_indices_usable",
    "check_known_options",
    "check_logits",
    "check_logits_layout",
    "check_metric_value",
    "check_minimum",
    "check_models",
    "check_one_criterion",
    "check_option",
    "check_page_name",
    "check_positive",
    "check_probabilities",
    "check_roc_points",
    "check_same_length",
    "check_same_rounding",
    "check_same_shape",
    "check_scalar_loss",
    "check_some_weight",
    "check_table_size",
    "check_targets",
    "check_threshold",
    "check_unit_interval",
    "check_unused",
    "check_update_layout",
    "check_width",
    "import_callable",
    "incompatible_options_error",
    "insufficient",
    "label_range_error",
    "message",
    "needs_extra",
    "non_finite_logits_error",
    "parameter_error",
    "percent_hint",
    "random_generator",
    "require_extra",
    "row_problem",
    "soft_target_error",
    "unreadable_rows",
    "unwritable",
]
