"""Columns and classes: the role of each column, and the class that each column belongs to.

Everything that reads predictions uses these modules. `spelling` decides when two names are the same
class, `matching` matches labels to columns, `agreement` compares labels with predictions, `arrays`
applies this to arrays and frames, `groups` names groups and numbers clusters, `finding` finds the
columns of a file for the `roles` they play, `values` turns them into numbers, and `policy` finds
the columns that a policy needs. Nothing is guessed: if a match is not clear, the data are refused
with a message.
"""

from expertload.columns.agreement import Compared, class_numbers
from expertload.columns.arrays import (
    check_labels,
    check_named_labels,
    check_names,
    count_classes,
    frame_columns,
    said_of,
    sort_probabilities,
)
from expertload.columns.finding import (
    find_column,
    find_columns,
    find_named,
    find_role,
    find_same,
    pick,
    said_of_file,
)
from expertload.columns.groups import (
    check_groups,
    independent_units,
    name_groups,
    number_clusters,
)
from expertload.columns.matching import (
    Matched,
    in_order,
    match_by_order,
    match_columns,
    named_class,
    places_by_name,
)
from expertload.columns.policy import (
    arrange_columns,
    arrange_probabilities,
    known_groups,
    policy_columns,
)
from expertload.columns.roles import ColumnNames, Columns
from expertload.columns.spelling import (
    ClassName,
    as_probability,
    class_key,
    is_missing,
    listed,
    plain_classes,
    spelled_alike,
)
from expertload.columns.values import (
    check_names_told_apart,
    grades_from,
    is_graded,
    labels_from,
    names_from,
    numbers_from,
    probabilities_from,
    sums_missed,
)

__all__ = [
    "ClassName",
    "ColumnNames",
    "Columns",
    "Compared",
    "Matched",
    "arrange_columns",
    "arrange_probabilities",
    "as_probability",
    "check_groups",
    "check_labels",
    "check_named_labels",
    "check_names",
    "check_names_told_apart",
    "class_key",
    "class_numbers",
    "count_classes",
    "find_column",
    "find_columns",
    "find_named",
    "find_role",
    "find_same",
    "frame_columns",
    "grades_from",
    "in_order",
    "independent_units",
    "is_graded",
    "is_missing",
    "known_groups",
    "labels_from",
    "listed",
    "match_by_order",
    "match_columns",
    "name_groups",
    "named_class",
    "names_from",
    "number_clusters",
    "numbers_from",
    "pick",
    "places_by_name",
    "plain_classes",
    "policy_columns",
    "probabilities_from",
    "said_of",
    "said_of_file",
    "sort_probabilities",
    "spelled_alike",
    "sums_missed",
]
