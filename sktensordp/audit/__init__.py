"""Empirical lower bounds on epsilon for anything that can be run many times.

Nothing here knows how a mechanism was made or calibrated: it is called, and what
comes out is looked at.
"""

from ._audit import audit_estimator, audit_mechanism
from ._one_run import audit_one_run
from ._report import AuditReport

__all__ = ["AuditReport", "audit_estimator", "audit_mechanism", "audit_one_run"]
