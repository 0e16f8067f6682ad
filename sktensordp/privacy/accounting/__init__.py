"""Events in, privacy curves out; nothing here knows units, estimators or budgets."""
