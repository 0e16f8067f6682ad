"""Texts that the docstrings of the mechanisms share."""

from .._docstrings import with_texts

TEXTS = {
    "epsilon": """\
epsilon : float, default=1.0
    Budget of a sample in one call of `transform`. With ``float("inf")``, samples are
    clipped and no noise is added.""",
    "delta": """\
delta : float, default=1e-6
    Delta of the same budget, in (0, 1).""",
    "mode": """\
mode : int, default=0
    Mode along which the noise may differ from index to index; along the others, it
    is i.i.d. Negative numbers count from the last mode.""",
    "mode_utility": """\
utility : array-like of shape (n_outputs, I_k) or (I_k,), default=None
    Matrix W by which you will multiply a released sample along the mode, whose size
    is I_k. A vector stands for a diagonal matrix, and None for the identity. Must be
    public; see `TensorVariateGaussian`.""",
    "bounds": """\
bounds : tuple of (low, high), default=None
    Public range of the entries: numbers, or arrays that broadcast to a sample.
    Samples are clipped to it.""",
    "norm_bound": """\
norm_bound : float, default=None
    Public bound on the Euclidean norm of a sample (the Frobenius norm of a matrix).
    Samples are clipped to it.""",
    "sensitivity": """\
sensitivity : float, default=None
    L2 sensitivity of the query, if each sample is the answer to a query. You vouch
    for it: samples are not clipped, except for values some 1e9 times as large as the
    noise.""",
    "tensor_shape": """\
tensor_shape : tuple of int, default=None
    Shape of a sample, if samples are passed as rows of features.""",
    "calibrated_directions": """\
Noise along the axes is calibrated exactly; for other directions, an upper bound of mu
is used (see `gaussian_mu`). With modes of up to 600 indices it aims at the
semidefinite bound, which is within a factor sqrt(pi/2).""",
    "random_state": """\
random_state : int or None, default=None
    None draws from the operating system's entropy, as a real release must. An
    int is for tests and papers: every clone repeats the same noise, although two
    calls of one object never share noise.""",
    "privacy_guarantee": """\
privacy_guarantee_ : PrivacyGuarantee
    Guarantee of one call of `transform`, for what enters this step. In a pipeline,
    earlier steps may have learned from the rows: see `privacy_of(pipeline)`.""",
    "noise_variance": """\
noise_variance_ : float
    Variance of the noise in an entry, in squared units of the entries.""",
    "noise_variances": """\
noise_variance_ : float or ndarray of the shape of a sample
    Variance of the noise in each entry, in squared units of the entries.""",
    "expected_squared_error": """\
expected_squared_error_ : float
    Expected squared error of a sample, summed over its entries.""",
    "expected_mode_error": """\
expected_squared_error_ : float
    Expected squared norm of Z x_k W, the noise Z of one sample multiplied by W along
    the mode.""",
    "shapes": """\
sample_shape_ : tuple of int
    Shape of a sample.
n_features_in_ : int
    Size of the first axis of a sample.""",
}

with_shared_text = with_texts(TEXTS)
