"""Empirical lower bounds on epsilon for anything that can be run many times.

An audit does not know how a mechanism was made or calibrated: it only calls the
mechanism and looks at the outputs.
"""

from ._audit import audit_estimator, audit_mechanism
from ._one_run import audit_one_run
from ._report import AuditReport

__all__ = ["AuditReport", "audit_estimator", "audit_mechanism", "audit_one_run"]
