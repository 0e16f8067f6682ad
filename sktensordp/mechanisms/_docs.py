"""Texts that the docstrings of the mechanisms share."""

from .._docstrings import with_texts

_EPSILON = """\
epsilon : float, default=1.0
    Budget of a sample in one call of `transform`. With ``float("inf")``, samples are
    clipped and no noise is added."""

_DELTA = """\
delta : float, default=1e-6
    Delta of the same budget, in (0, 1)."""

_MODE = """\
mode : int, default=0
    Mode along which the noise may differ from index to index; along the others, it
    is i.i.d. Negative numbers count from the last mode."""

_MODE_UTILITY = """\
utility : array-like of shape (n_outputs, I_k) or (I_k,), default=None
    Matrix W by which you will multiply a released sample along the mode, whose size
    is I_k. A vector stands for a diagonal matrix, and None for the identity. Must be
    public; see `TensorVariateGaussian`."""

_BOUNDS = """\
bounds : tuple of (low, high), default=None
    Public range of the entries: numbers, or arrays that broadcast to a sample.
    Samples are clipped to it."""

_NORM_BOUND = """\
norm_bound : float, default=None
    Public bound on the Euclidean norm of a sample (the Frobenius norm of a matrix).
    Samples are clipped to it."""

_SENSITIVITY = """\
sensitivity : float, default=None
    {} sensitivity of the query, if each sample is the answer to a query. You vouch
    for it: samples are not clipped, except for values some 1e9 times as large as the
    noise."""

_TENSOR_SHAPE = """\
tensor_shape : tuple of int, default=None
    Shape of a sample, if samples are passed as rows of features."""

_CALIBRATED_DIRECTIONS = """\
Noise along the axes is calibrated exactly; for other directions, an upper bound of mu
is used (see `gaussian_mu`). With modes of up to 600 indices it aims at the
semidefinite bound, which is within a factor sqrt(pi/2)."""

_RANDOM_STATE = """\
random_state : int or None, default=None
    None draws from the operating system's entropy, as a real release must. An
    int is for tests and papers: every clone repeats the same noise, although two
    calls of one object never share noise."""

_GUARANTEE_ATTRIBUTE = """\
privacy_guarantee_ : PrivacyGuarantee
    Guarantee of one call of `transform`, for what enters this step. In a pipeline,
    earlier steps may have learned from the rows; ask `privacy_of(pipeline)`."""

_VARIANCE = """\
noise_variance_ : float
    Variance of the noise in an entry, in squared units of the entries."""

_VARIANCES = """\
noise_variance_ : float or ndarray of the shape of a sample
    Variance of the noise in each entry, in squared units of the entries."""

_ERROR = """\
expected_squared_error_ : float
    Expected squared error of a sample, summed over its entries."""

_MODE_ERROR = """\
expected_squared_error_ : float
    Expected squared norm of Z x_k W, the noise Z of one sample multiplied by W along
    the mode."""

_SHAPES = """\
sample_shape_ : tuple of int
    Shape of a sample.
n_features_in_ : int
    Size of the first axis of a sample."""

with_shared_text = with_texts(
    {
        "epsilon": _EPSILON,
        "delta": _DELTA,
        "mode": _MODE,
        "mode_utility": _MODE_UTILITY,
        "bounds": _BOUNDS,
        "norm_bound": _NORM_BOUND,
        "sensitivity": _SENSITIVITY.format("L2"),
        "l1_sensitivity": _SENSITIVITY.format("L1"),
        "tensor_shape": _TENSOR_SHAPE,
        "calibrated_directions": _CALIBRATED_DIRECTIONS,
        "random_state": _RANDOM_STATE,
        "privacy_guarantee": _GUARANTEE_ATTRIBUTE,
        "noise_variance": _VARIANCE,
        "noise_variances": _VARIANCES,
        "expected_squared_error": _ERROR,
        "expected_mode_error": _MODE_ERROR,
        "shapes": _SHAPES,
    }
)
