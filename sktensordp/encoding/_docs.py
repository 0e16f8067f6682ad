"""Texts that the docstrings of the encoders share."""

from .._docstrings import with_texts
from ..mechanisms._docs import TEXTS as OF_MECHANISMS

TEXTS = {
    **OF_MECHANISMS,
    "budget": """\
epsilon : float, default=1.0
    Budget of a sample in one call of `transform` or `privatize`. With
    ``float("inf")``, no noise is added, and codes are clipped only if `clip` is a
    number.
delta : float, default=0
    Needed for ``mechanism="gaussian"``; the others have delta = 0.""",
    "linear_task": """\
task : array-like of shape (m, n), fitted linear model or None, default=None
    Task that is computed from a sample of n entries: a matrix K, or a linear
    regression of scikit-learn with `coef_`. With None, `fit` learns a ridge
    regression of `y`; without `y`, the task is the identity.""",
    "mechanism": """\
mechanism : {"auto", "laplace", "l2", "privunit", "gaussian"}, default="auto"
    How the code is released. Every mechanism first clips it to a ball of radius R,
    "laplace" in the L1 norm and the others in the L2 norm. "laplace" adds discrete
    Laplace noise, "l2" noise y of density ``exp(-epsilon |y| / 2R)``, and "gaussian"
    Gaussian noise; "privunit" lifts the code to a sphere and releases it as
    `PrivUnit` does. "auto" chooses the one of "laplace", "l2" and "privunit"
    with the least expected loss.""",
    "clip": """\
clip : "auto" or float in (0, 1], default="auto"
    Share of the fitting data's codes that lie within the ball to which codes are
    clipped. `fit` sets the radius of the ball accordingly. "auto" takes the share
    with the least expected loss.""",
    "output": """\
output : {"decoded", "code"}, default="decoded"
    Whether `transform` returns estimates of the samples, or their noisy codes.""",
    "fitted_code": """\
privacy_guarantee_ : PrivacyGuarantee
    Guarantee of one call of `transform` or `privatize`.
n_components_ : int
    Number of entries of the code.
mechanism_ : str
    Mechanism in use; "none" without noise.""",
    "clip_radius": """\
clip_ : float
    Radius of the ball, in units of the code; infinite without clipping.""",
    "noise_variance": """\
noise_variance_ : float
    Variance of the noise in an entry of the code, in squared units of the radius.""",
    "expected_task_loss": """\
expected_task_loss_ : float
    Expected ``|K x_hat - K x|^2`` for the estimate x_hat of a sample x, over the
    fitting data and the noise.""",
    "task_variance": """\
task_variance_ : float
    The same loss if every sample were estimated by their mean.""",
    "task_matrix": """\
task_ : ndarray of shape (m, n)
    Matrix K of the task.""",
}

with_shared_text = with_texts(TEXTS)
