"""Prior constants of the fits, for values divided by half the width of their range."""

# Starting values; a fit learns these precisions from the data.
BIAS_PRECISION = 20.0
CORE_PRECISION = 100.0
# Limits of learned precisions.
SMALLEST_PRECISION, LARGEST_PRECISION = 1e-6, 1e6

# Prior variances for fits to noisy sums: of a bias, of all terms of the interaction
# together, and of a value around the model.
BIAS_VARIANCE = 0.04
INTERACTION_VARIANCE = 0.045
RESIDUAL_VARIANCE = 0.2
# Standard deviation, in e-folds, of log-normal priors of variances.
E_FOLDS = 1.5
# Keeps divisions finite if there is neither noise nor signal.
LEAST_NOISE = 1e-12
