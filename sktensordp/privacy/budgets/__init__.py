"""The budgets of a process: limits, recorded releases, and reservations of releases."""
