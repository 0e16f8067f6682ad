"""Empirical lower bounds on epsilon for anything that can be run many times.

An audit does not know how a mechanism was made or calibrated: it only calls the
mechanism and looks at the outputs.
"""

from ._attack_report import AttackReport
from ._attacks import Attack
from ._audit import audit_estimator, audit_mechanism
from ._one_run import audit_one_run
from ._people import AuditTables, audit_recommender, audit_tables, audit_training
from ._report import AuditReport

__all__ = [
    "Attack",
    "AttackReport",
    "AuditReport",
    "AuditTables",
    "audit_estimator",
    "audit_mechanism",
    "audit_one_run",
    "audit_recommender",
    "audit_tables",
    "audit_training",
]
