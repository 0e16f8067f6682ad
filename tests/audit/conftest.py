"""Audits learn their scores on one thread."""

from tests.statistical.conftest import one_thread  # noqa: F401
