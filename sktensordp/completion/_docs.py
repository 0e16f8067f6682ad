"""Text that the docstrings of all completions share."""

from .._docstrings import with_texts

__all__ = ["with_shared_text"]

_SUMMARY = """\
Fit it to coordinates and values of the observed entries, or to a dense tensor with NaN
where nothing was observed. The fit randomises what it computes from the values and fits
the model to that, so the fitted object reveals no more than `epsilon` (and, with
Gaussian noise, `delta`) about any unit.

**Who is protected.** With ``unit="entry"``, neighbouring data sets differ in the value
of one observed entry; which entries are observed (the coordinates) is public. With
``unit=0``, neighbouring data sets differ by all entries at one index of mode 0, such as
all ratings of one user: one data set has them, the other does not (add or remove). The
released factors (of items and of time) then satisfy (`epsilon`, `delta`). Each user's
own factors are computed from that user's entries and the released factors. They serve
`predict` in this process and never leave it by a public attribute, a deep copy or a
pickle. So all that other people learn satisfies (`epsilon`, `delta`) too (joint
differential privacy).

**Parameters by topic.**

- What is protected: `epsilon`, `delta`, `unit`, `perturbation`, `calibration`.
- The public domain: `value_bounds` or `levels`, `level_prior`, `shape`.
- The model: `rank`, `biases`, `side_information`, `n_pattern_components`,
  `smooth_modes`.
- The fit: `max_iter`, `gradient_clip`, `random_state`; for published algorithms also
  `learning_rate` and `regularization`.

Declare `levels` or `value_bounds`, and `shape` where `unit` is a mode: a range or shape
that is read off private data voids the guarantee."""

_PARAMETERS = """\
epsilon : float, default=1.0
    Budget of one unit. ``float("inf")`` adds no noise.
delta : float, default=1e-6
    Budget of one unit. It is used only with Gaussian noise: in "gradient", and if
    `unit` is a mode.
perturbation : {"auto", "input", "gradient", "output", "statistics", "sums"}, \
default="auto"
    What is randomised. With ``unit="entry"``:

    - "auto": whichever of "input", "sums" and "statistics" has the least expected
      error, given the coordinates, the domain and the budget. `perturbation_` tells
      which.
    - "input": every value independently. The fit is variational: it learns from the
      randomised values how much to shrink every column, so there is no regularisation
      to tune. Best from about epsilon 3 on.
    - "sums": the sum of the values in every row of every mode. The sums determine
      biases; `rank` and `max_iter` are not used. Best at small epsilon.
    - "statistics": the sums, and then right-hand sides of regressions of the residuals.
      These fit the first mode's rows to features of the pattern or, if it has none, one
      mode after the other to factors of the other modes, as in alternating least
      squares.
    - "output": as "statistics", but with noise on the solutions of ridge regressions.
    - "gradient": the sum of the clipped gradients of all entries, in each of
      `max_iter` iterations.

    If `unit` is a mode, choose among three. The fit then has a fixed number of passes
    and does not use `max_iter`.

    - "sums": noisy counts and sums of residuals of every row of the other modes, which
      determine biases.
    - "statistics": right-hand sides of regressions too, which determine factors.
    - "auto": one of the two, chosen by noisy counts.
unit : {"entry"} or int, default="entry"
    What is protected: the value of one entry, or all entries at one index of this mode.
    Rows of protected units are never pickled or copied. `fold_in` computes them from
    the units' entries, to restore them or to score held-out units. To search,
    use ``GridSearchCV(model, grid, cv=GroupKFold(), scoring=make_fold_in_scorer())``
    and pass ``groups=X[:, unit]`` to its `fit`.
value_bounds : tuple of (float, float), default=None
    Public range, to which values and predictions are clipped. If neither this nor
    `levels` is given, the range is read off the values with a ``PrivacyLeakWarning``,
    and the guarantee is void.
levels : array-like of shape (n_levels,), default=None
    All levels of the public scale, ascending: ``[1, 2, 3, 4, 5]`` for 1 to 5 stars.
    Values are rounded to the nearest level, so ``(1, 5)`` would turn every value into
    1 or 5; for a range, pass ``value_bounds=(1, 5)``. "input" randomises up to 20
    levels by the table of least variance, and adds discrete Laplace noise to more.
    Without `levels`, it adds Laplace noise on a lattice.
level_prior : array-like of shape (n_levels,), default=None
    Public guess of the levels' probabilities: the table for up to 20 levels has the
    least variance under it. Uniform by default. It must not come from the same values.
shape : tuple of int, default=None
    Sizes of the modes. By default they are the largest coordinates plus one. Declare
    the shape to cross-validate on coordinates: a fold may lack the largest ones, and
    `predict` refuses coordinates outside the shape. If `unit` is a mode, the shape and
    the meanings of the indices must be public, so declare it: a shape read off the
    coordinates, with a ``PrivacyLeakWarning``, voids the guarantee. If a
    `CoordinateEncoder` declares `categories` for every column, pass its
    `declared_shape`.
side_information : dict of {int: array-like of shape (shape[mode], n_features)}, or \
list of these and None, default=None
    Public features of the rows of one mode, such as genres of films. It is the second
    mode or, if `unit` is a mode, the first of the others. Every row of the first mode,
    or every unit, has weights for the features, around a mean that all rows share.
    Features cost no budget.
calibration : {"sound", "published"}, default="sound"
    "published" is Algorithm 1 ("input"), 2 ("gradient") or 3 ("output") of [1]_ to
    the letter: stochastic gradient descent on values that are neither centred nor
    scaled, without biases. The claims for "gradient" and "output" are false: a fit
    warns with ``UnsoundClaimWarning``, and `privacy_guarantee_` states what is true.
biases : bool, default=True
    Whether each mode has a bias.
n_pattern_components : int, default=8
    Largest number of components of the pattern of the coordinates, which is public,
    that serve as features of the second mode's rows. The pattern tells which rows of
    the first mode have entries with each row of the second; only its leading components
    that exceed chance are used, beside each row's number of entries. Rows of the first
    mode have weights for these features. With 0, or if `unit` is a mode, so that the
    pattern is private, the model uses no such features.
smooth_modes : sequence of int, default=None
    Modes whose neighbouring indices are alike, such as time bins. Their prior ties
    every index to the next one; the randomised values determine how strongly. For
    "input" only.
max_iter : int, default=25
    Number of sweeps of the fit over the modes, or of iterations.
gradient_clip : float, default=0.5
    Largest norm of the gradient of one entry. In the sound "gradient", it bounds the
    derivatives with respect to all biases and factors together, for values over half
    their range; in Algorithm 2, those with respect to the last factor; in Algorithm 3,
    it is the Lipschitz constant, which the paper does not give.
learning_rate : float, default=0.005
    Learning rate of the published algorithms.
regularization : float, default=0.01
    Weight of the factors' squared norms in the published algorithms."""

_RANDOM_STATE = """\
random_state : int or None, default=None
    None draws from the operating system's entropy, as a real release must. An
    int is for tests and papers: it repeats the noise in every clone, although
    never in two fits of one object."""

_ATTRIBUTES = """\
offset_ : float
    Estimated mean of the values. It is 0 in the published algorithms, and in "input"
    without biases if the model fits clearly better without an offset.
shape_ : tuple of int
    Sizes of the modes.
value_bounds_ : tuple of (float, float)
    Range of the predictions.
perturbation_ : str
    The perturbation used. With "sums" the model consists of biases alone: `rank` is not
    used, and without `side_information` everybody gets the same recommendations, minus
    the items they already have entries for.
noise_variance_ : float
    Variance of the fitted values around the model, learned or assumed: of randomised
    values in "input", of values otherwise. Not set by the published algorithms.
residual_variance_ : float
    Variance of the values, before they were randomised, around the model, learned from
    the randomised values. Set by "input" only.
n_iter_ : int
    Number of sweeps or iterations that were run.
n_features_in_ : int
    Number of modes."""

_NOTES = """\
The guarantee of "input" is Theorem 1 of [1]_ with a public range; exact samplers of
discrete distributions replace floating-point noise. The guarantee of "sums",
"statistics" and "output" is that of the Laplace mechanism, composed over releases [2]_;
that of "gradient", and of all perturbations if `unit` is a mode, is that of the
Gaussian mechanism [3]_. The proofs are in ``doc/completion_proofs.md``.
Two entries at the same coordinates are two observations, each protected on its own.

scikit-learn's callbacks are called at every sweep or iteration, without the data.

References
----------
.. [1] Wei, Li, Mao and Wang, "Applying Differential Privacy to Tensor
   Completion", 2022.
.. [2] Dwork, McSherry, Nissim and Smith, "Calibrating Noise to Sensitivity in
   Private Data Analysis", 2006.
.. [3] Dong, Roth and Su, "Gaussian Differential Privacy", 2022."""

with_shared_text = with_texts(
    {
        "summary": _SUMMARY,
        "parameters": _PARAMETERS,
        "random_state": _RANDOM_STATE,
        "attributes": _ATTRIBUTES,
        "notes": _NOTES,
    }
)
