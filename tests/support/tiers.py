"""Tiers of tests, and which files have tests of one: told by their text."""

import re

DEFAULT = "not slow and not thorough"  # the option -m in pyproject.toml
TIERS = ("thorough", "slow")
WHOLE = re.compile(r"^pytestmark = (?:\[\s*)?pytest\.mark\.(slow|thorough)\b", re.M)


def has_tests_of(expression, text):
    """Whether a file can have tests that an option ``-m`` selects.

    A file that belongs to a later tier as a whole says so in its `pytestmark`, where
    the tier comes first. One of which some tests do names the tier.

    Parameters
    ----------
    expression : str
        Of the option ``-m``.
    text : str
        What is in the file.

    Returns
    -------
    answer : bool
    """
    if " or " in expression:
        return any(has_tests_of(one, text) for one in expression.split(" or "))
    whole = WHOLE.search(text)
    if whole and f"not {whole[1]}" in expression:
        return False
    tier = expression.partition(" ")[0]
    return tier not in TIERS or tier in text.lower()
