"""Ids, labels and folds that users pass; each value is read by itself."""

from ._each import one_each
from ._known import (
    Known,
    are_equal,
    check_in_order,
    check_type,
    check_unlabelled,
    declared_labels,
    in_order_of,
    index_of,
    kinds_of,
    kinds_of_type,
    numbers_of,
    people_of,
    type_of,
)
from ._lists import lists_of, one_or_each

__all__ = [
    "Known",
    "are_equal",
    "check_in_order",
    "check_type",
    "check_unlabelled",
    "declared_labels",
    "in_order_of",
    "index_of",
    "kinds_of",
    "kinds_of_type",
    "lists_of",
    "numbers_of",
    "one_each",
    "one_or_each",
    "people_of",
    "type_of",
]
