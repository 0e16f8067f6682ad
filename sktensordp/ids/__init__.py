"""What users pass: containers, ids and folds."""
