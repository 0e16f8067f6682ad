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
# The same if users are answered from their own values: of a user's bias, of the weight
# that a user gives to a feature, and of a value around the model.
OWN_BIAS_VARIANCE = 0.06
OWN_WEIGHT_VARIANCE = 0.02
OWN_RESIDUAL_VARIANCE = 0.15
# Standard deviation, in e-folds, of log-normal priors of variances.
E_FOLDS = 1.5
# Keeps divisions finite if there is neither noise nor signal.
LEAST_NOISE = 1e-12
