"""Texts that the docstrings of the regressions share."""

from .._docstrings import with_texts

with_shared_text = with_texts(
    {
        "n_components": """\
n_components : tuple of int, int or None, default=None
    Number of components of every mode, whose products are the features. One number is
    the number of features in all; None takes the components that stand out from the
    noise. A fifth of the budget finds components. If they are all cells, the whole
    budget goes to the regression.""",
        "alpha": """\
alpha : float or "auto", default="auto"
    Penalty on the squared weights of the components, as in scikit-learn's ``Ridge``.
    "auto" takes the one with the least expected error, by what was released and the
    known noise.""",
        "epsilon": """\
epsilon : float, default=1.0
    Budget of a sample and its target. ``float("inf")`` adds no noise.""",
        "delta": """\
delta : float, default=1e-6
    Budget of a sample and its target.""",
        "norm_bound": """\
norm_bound : float, default=None
    Public bound on the Euclidean norm of a sample; longer samples are scaled down to
    it. If None, it is read off the data with a `PrivacyLeakWarning`, and no finite
    epsilon holds; without noise, samples are not clipped then.""",
        "tensor_shape": """\
tensor_shape : tuple of int, default=None
    Shape of a sample, if samples are passed as rows of features.""",
        "random_state": """\
random_state : int or None, default=None
    None draws from the operating system's entropy, as a real release must. An
    int is for tests and papers: every clone repeats the same noise, although two
    fits of one object never share noise.""",
        "attributes": """\
components_ : list of ndarray of shape (I_k, r_k)
    Orthonormal factors of the modes.
alpha_ : float
    The penalty that was taken.
privacy_guarantee_ : PrivacyGuarantee
    Guarantee of everything that `fit` publishes.
sample_shape_ : tuple of int
    Shape of a sample.
n_features_in_ : int
    Size of the first axis of a sample.""",
    }
)
