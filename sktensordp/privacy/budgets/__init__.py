"""The budgets of a process: limits, recorded releases, and preauthorised releases."""
