"""Texts that the docstrings of the papers share."""

from .._docstrings import with_texts
from ..encoding._docs import TEXTS

RANDOM_STATE = """\
random_state : int or None, default=None
    None draws from the operating system's entropy, as a real release must. An
    int is for tests and papers: it repeats the noise in every clone, although
    never in two fits of one object."""

with_shared_text = with_texts(
    {
        "algorithms": """\
The claim of [1]_ for "input" is true. The claims for "gradient" and "output" are false:
they release factors, and the core of a Tucker decomposition, that were fitted to the
raw values. A fit then warns with ``UnsoundClaimWarning``, and `privacy_guarantee_`
states the true guarantee.""",
        "descent": """\
Stochastic gradient descent fits the decomposition to values that are neither centred
nor scaled, without biases. To compare, use
:class:`~sktensordp.completion.CPCompletion` and
:class:`~sktensordp.completion.TuckerCompletion`.""",
        "parameters": """\
epsilon : float, default=1.0
    Claimed for the value of one entry. ``float("inf")`` adds no noise.
perturbation : {"input", "gradient", "output"}, default="input"
    What gets noise: the values (Algorithm 1), the gradients of the last factor
    (Algorithm 2), or the last factor at the end (Algorithm 3).
value_bounds : tuple of (float, float), default=None
    Public range, to which values and predictions are clipped. Without it, the fit reads
    the range off the values with a ``PrivacyLeakWarning``, and the guarantee is void.
shape : tuple of int, default=None
    Sizes of the modes. By default they are the largest coordinates plus one.
max_iter : int, default=100
    Number of passes over the entries.
regularization : float, default=0.01
    Weight of the factors' squared norms in the cost.
gradient_clip : float, default=0.5
    In Algorithm 2, the largest norm of the gradient of an entry in the last factor. In
    Algorithm 3, the Lipschitz constant, which the paper does not give.
clamp : bool, default=False
    For "input", whether noisy values are clipped to `value_bounds` before the descent,
    which Section 4.2 of [1]_ offers as an option.""",
        "differs": """\
**How it differs from the paper.** The paper leaves some things open. Here the factors
start from uniform numbers in [0, 1), entries come in the order of `X`, and the cost of
an entry has the penalty on its own rows, so a row with many entries is penalised more
often. L of Algorithm 3 is the clipping constant of Algorithm 2, and `clamp` takes the
range of the values. Some things are ours. Values are clipped to the range first, since
no epsilon holds for Algorithm 1 without that. Its Laplace noise lies on a lattice.
Predictions are clipped to the range. A descent whose model may overflow ends before
that pass, with a warning. The defaults are those of Section 5.2. Section 5.1 has
smaller penalties for Tucker tensors (0.001 and 0.0001), and their rate is 0.005.""",
        "of_queries": """\
**How it differs from the paper.** A sample is the value of a query, and may be replaced
by any other in the declared domain; in the paper, two data sets differ in one record.
Samples are clipped to `bounds` and `norm_bound`. The noise is drawn on a lattice, and
the true epsilon includes the lattice's distance from Gaussian noise.""",
        "least_cost": """\
Where an error costs nothing, the published variance would be infinite: costs below a
millionth of the largest one in a mode are raised to that.""",
        "zeta": """\
zeta_ : float
    zeta(delta) of [1]_. The Euclidean norm of noise of variance 1 exceeds it with
    probability at most delta.""",
        "sigmas": """\
sigmas_ : tuple of ndarray of shape (I_k,)
    Standard deviations sigma_ki along the directions of each mode.""",
        "mode_sigmas": """\
sigmas_ : tuple of ndarray of shape (I_k,)
    Standard deviations along the directions of each mode: sigma_i along `mode`, and 1
    along the others.""",
        "costs": """\
costs_ : tuple of ndarray of shape (I_k,)
    P_ki: what a squared error along each direction of each mode costs.""",
        "random_state": RANDOM_STATE,
        "attributes": """\
privacy_guarantee_ : PrivacyGuarantee
    The guarantee that holds, next to the claim if that is stronger.
shape_ : tuple of int
    Sizes of the modes.
value_bounds_ : tuple of (float, float)
    Range of the predictions.
perturbation_ : str
    The perturbation used.
n_iter_ : int
    Number of passes that were run.
n_features_in_ : int
    Number of modes.""",
    }
)
with_encoder_text = with_texts(
    {
        **TEXTS,
        "claim": """\
epsilon : float, default=1.0
    Claimed for a sample in one call of `transform` or `privatize`. With
    ``float("inf")``, no noise is added.""",
        "published_noise": """\
Codes are not clipped, and get Laplace noise for the largest
distance between two codes of X, which you declare as a box by `bounds`: then the claim
holds. Without `bounds`, the distance is that of the fitting data. `fit` then warns with
``UnsoundClaimWarning``, since no finite epsilon holds for the samples of other people,
and `privacy_guarantee_` states this next to the claim.""",
        "encoder_differs": """\
**How it differs from the paper.** Mean and covariance are those of the fitting data,
and the covariance may be singular; the paper has those of the distribution, and a
positive definite one. X is a box, or without `bounds` the fitting data; in the paper,
it is any compact set. The noise is drawn on a lattice.""",
        "box": """\
bounds : tuple of (low, high), default=None
    The box X of all samples, which is public: numbers, or arrays of the shape of a
    sample. Samples are clipped to it. The sensitivity over X is exact for linear maps
    of few entries, and an upper bound for others. Without `bounds`, the sensitivity is
    that of the fitting data, and no finite epsilon holds.""",
    }
)
