"""Texts that the docstrings of the encoders share."""

from .._docstrings import with_texts

_BUDGET = """\
epsilon : float, default=1.0
    Budget of a sample in one call of `transform` or `privatize`. With
    ``float("inf")``, no noise is added, and codes are clipped only if `clip` is a
    number.
delta : float, default=0
    Needed for ``mechanism="gaussian"``; the others have delta = 0."""

_LINEAR_TASK = """\
task : array-like of shape (m, n), fitted linear model or None, default=None
    Task that is computed from a sample of n entries: a matrix K, or a linear
    regression of scikit-learn with `coef_`. With None, `fit` learns a ridge
    regression of `y`; without `y`, the task is the identity."""

_MECHANISM = """\
mechanism : {"auto", "laplace", "l2", "privunit", "gaussian"}, default="auto"
    How the code is released. Every mechanism first clips it to a ball of radius R,
    "laplace" in the L1 norm and the others in the L2 norm. "laplace" adds discrete
    Laplace noise, "l2" noise y of density ``exp(-epsilon |y| / 2R)``, and "gaussian"
    Gaussian noise; "privunit" lifts the code to a sphere and releases it as
    `PrivUnit` does. "auto" takes the one of "laplace", "l2" and "privunit" with the
    least expected loss."""

_CLIP = """\
clip : "auto" or float in (0, 1], default="auto"
    Share of the fitting data's codes that lie within the ball to which codes are
    clipped. `fit` sets the radius of the ball accordingly. "auto" takes the share
    with the least expected loss."""

_OUTPUT = """\
output : {"decoded", "code"}, default="decoded"
    Whether `transform` returns estimates of the samples, or their noisy codes.
tensor_shape : tuple of int, default=None
    Shape of a sample, if samples are passed as rows of features.
random_state : int or None, default=None
    None draws from the operating system's entropy, as a real release must. An
    int is for tests and papers: every clone repeats the same noise, although two
    calls of one object never share noise."""

_FITTED_CODE = """\
privacy_guarantee_ : PrivacyGuarantee
    Guarantee of one call of `transform` or `privatize`.
n_components_ : int
    Number of entries of the code.
mechanism_ : str
    Mechanism in use; "none" without noise."""

_CLIP_RADIUS = """\
clip_ : float
    Radius of the ball, in units of the code; infinite without clipping."""

_NOISE_VARIANCE = """\
noise_variance_ : float
    Variance of the noise in an entry of the code, in squared units of the radius."""

_EXPECTED_TASK_LOSS = """\
expected_task_loss_ : float
    Expected ``|K x_hat - K x|^2`` for the estimate x_hat of a sample x, over the
    fitting data and the noise."""

_TASK_VARIANCE = """\
task_variance_ : float
    The same loss if every sample were estimated by their mean."""

_TASK_MATRIX = """\
task_ : ndarray of shape (m, n)
    Matrix K of the task."""

_SAMPLE_SHAPE = """\
sample_shape_ : tuple of int
    Shape of a sample.
n_features_in_ : int
    Size of the first axis of a sample."""

TEXTS = {
    "budget": _BUDGET,
    "linear_task": _LINEAR_TASK,
    "mechanism": _MECHANISM,
    "clip": _CLIP,
    "output": _OUTPUT,
    "fitted_code": _FITTED_CODE,
    "clip_radius": _CLIP_RADIUS,
    "noise_variance": _NOISE_VARIANCE,
    "expected_task_loss": _EXPECTED_TASK_LOSS,
    "task_variance": _TASK_VARIANCE,
    "task_matrix": _TASK_MATRIX,
    "sample_shape": _SAMPLE_SHAPE,
}

with_shared_text = with_texts(TEXTS)
