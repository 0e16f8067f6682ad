"""Text that the documentation of all completions has in common."""

import inspect
from string import Template
from typing import TypeVar

__all__ = ["with_shared_text"]

_Class = TypeVar("_Class", bound=type)


def with_shared_text(estimator: _Class) -> _Class:
    """Fill the text that completions share into the docstring of one of them.

    Parameters
    ----------
    estimator : type
        A class whose docstring has the names of such texts, each after a dollar.

    Returns
    -------
    estimator : type
    """
    if estimator.__doc__ is not None:  # As it is under python -OO.
        text = Template(inspect.cleandoc(estimator.__doc__))
        estimator.__doc__ = text.substitute(_TEXTS)
    return estimator


_SUMMARY = """\
The observed entries are rows of coordinates with their values, or a dense tensor
with NaN for the unobserved. What is computed from the values is randomised, so that
the fitted object reveals no more than `epsilon` (and, for gradients, `delta`) of
any of them; the model is fitted to that.

**Who is protected.** With ``unit="entry"``, neighbouring data sets differ in the value
of one observed entry; which entries are observed (the coordinates) is public. With
``unit=0``, they differ by everything at one index of mode 0, as by all ratings of one
user: it is there, or nothing of it is (add or remove). What is released (factors of
items and of time) then keeps (`epsilon`, `delta`). Users' own factors are computed
from their own entries and from what is released; they serve `predict` in this process
and leave with no public attribute, deep copy or pickle, so that whatever all others
get to know keeps it too (joint differential privacy)."""

_PARAMETERS = """\
epsilon : float, default=1.0
    Budget of one unit. ``float("inf")`` adds no noise.
delta : float, default=1e-6
    Budget of one unit where there is Gaussian noise: in "gradient", and where `unit`
    is a mode.
perturbation : {"auto", "input", "gradient", "output", "statistics", "sums"}, \
default="auto"
    What is randomised.

    - "input": every value, on its own. The fit is variational: from the randomised
      values it learns how much to shrink every column, so that there is no
      regularisation to tune. Best from about epsilon 3 on.
    - "sums": the sum of the values in every row of every mode, which determine the
      biases; `rank` and `max_iter` are not used. Best at small epsilon.
    - "statistics": sums as above, and the right-hand sides of regressions of what
      the biases leave: of the first mode's rows on features of the pattern, or,
      where the pattern has none, of one mode after the other on factors of the
      others, as in alternating least squares.
    - "output": the same with noise on the solutions of ridge regressions.
    - "gradient": the sum of all entries' clipped gradients, in each of `max_iter`
      iterations.
    - "auto": "input", "sums" or "statistics", whichever has the least expected
      error. It follows from the coordinates, the domain and the budget alone;
      `perturbation_` tells.

    Where `unit` is a mode, there are three: "sums" (noisy counts, and sums of residuals
    by row of every other mode, hence biases), "statistics" (right-hand sides of
    regressions too, hence factors), and "auto", which chooses by noisy counts; the fit
    has a fixed number of passes, and does not use `max_iter`.
unit : {"entry"} or int, default="entry"
    What is protected: the value of one entry, or everything at one index of a mode.
    Rows of protected units are never pickled or copied. After either, and to score
    held-out units, `fold_in` computes them again from the units' entries. To search,
    use ``GridSearchCV(model, grid, cv=GroupKFold(), scoring=make_fold_in_scorer())``
    and pass ``groups=X[:, unit]`` to its `fit`.
value_bounds : tuple of (float, float), default=None
    Public range of the values. Values are clipped to it, and so are
    predictions. If neither this nor `levels` is given, the range is read off
    the values with a ``PrivacyLeakWarning``, and the guarantee is void.
levels : array-like of shape (n_levels,), default=None
    All levels of the public scale, ascending: ``[1, 2, 3, 4, 5]`` for 1 to 5 stars.
    Values are rounded to the nearest level, so ``(1, 5)`` would turn every value into
    1 or 5; for a range, pass ``value_bounds=(1, 5)``. Up to 20
    levels are randomised by the table of least variance, more by discrete Laplace
    noise. Without `levels`, Laplace noise on a lattice is added.
level_prior : array-like of shape (n_levels,), default=None
    Public guess of the levels' probabilities, under which the table of up to 20
    levels has least variance; uniform by default. It must not come from the same
    values.
shape : tuple of int, default=None
    Sizes of the modes; one more than the largest coordinates by default.
    Declare it to cross-validate on coordinates, since a fold may lack the
    largest of them and what lies outside the shape is not predicted. Where `unit` is
    a mode, it must be declared, and public, as are the indices' meanings: read off the
    coordinates, with a ``PrivacyLeakWarning``, it voids the guarantee. If a
    `CoordinateEncoder` declares `categories` for every column, pass its
    `declared_shape`.
side_information : dict of {int: array-like of shape (shape[mode], n_features)}, or \
list of these and None, default=None
    Public features of the rows of a mode, such as genres of films: of the second mode,
    or, where `unit` is a mode, of the first one other than that. Every row of the first
    mode, or every unit, has weights for them, with a mean that all share. They cost no
    budget.
calibration : {"sound", "published"}, default="sound"
    "published" is Algorithm 1 ("input"), 2 ("gradient") or 3 ("output") of [1]_ to
    the letter: stochastic gradient descent on the values as they are,
    without biases or offset. The claims for "gradient" and "output" do not hold:
    a fit warns with ``UnsoundClaimWarning``, and `privacy_guarantee_` says what is
    true.
biases : bool, default=True
    Whether each mode has a bias.
n_pattern_components : int, default=8
    Largest number of components of the pattern of the coordinates, which is public,
    that serve as features of the second mode's rows. Next to their numbers of
    entries, these are the leading components of which rows of the first mode have
    entries with them, as far as they stand out from chance; rows of the first mode
    have weights for them. At 0, nothing is read off the pattern; where `unit` is a
    mode, the pattern is private, and nothing is either.
smooth_modes : sequence of int, default=None
    Modes whose neighbouring indices are alike, as bins of time are. Their prior
    ties every index to the next one, as strongly as the randomised values say.
    For "input" alone.
max_iter : int, default=25
    Number of sweeps of the fit over the modes, or of iterations.
gradient_clip : float, default=0.5
    Largest norm of the gradient of one entry. In the sound "gradient", of the
    derivatives by all biases and factors together, for values over half their
    range; in Algorithm 2, of those by the last factor, and in Algorithm 3 the
    Lipschitz constant, which the paper does not give.
learning_rate : float, default=0.005
    Of the published algorithms.
regularization : float, default=0.01
    Weight of the factors' squared norms in the published algorithms."""

_RANDOM_STATE = """\
random_state : int or None, default=None
    None draws from the operating system's entropy, as a real release must. An
    int is for tests and papers: it repeats the noise in every clone, although
    never in two fits of one object."""

_ATTRIBUTES = """\
offset_ : float
    Mean of the values, as far as known; 0 in the published algorithms, and in "input"
    without biases where values are fitted clearly better as they are.
shape_ : tuple of int
    Sizes of the modes.
value_bounds_ : tuple of (float, float)
    Range of the predictions.
perturbation_ : str
    The perturbation used. With "sums" the model consists of biases alone: `rank` is not
    used, and without `side_information` everybody is recommended the same list, minus
    the items they already have entries for.
noise_variance_ : float
    Variance of what was fitted (randomised values, or values) around the model, as
    learned or supposed; not in the published algorithms.
residual_variance_ : float
    Variance of the values, before they were randomised, around the model, as
    learned from the randomised ones; for "input" alone.
n_iter_ : int
    Number of sweeps or iterations that were run.
n_features_in_ : int
    Number of modes."""

_NOTES = """\
The guarantee of "input" is Theorem 1 of [1]_ with a public range, for exact
samplers of discrete laws in the place of floating-point noise; that of "sums",
"statistics" and "output" is the Laplace mechanism's, its releases composed [2]_;
that of "gradient", and of all where `unit` is a mode, the Gaussian mechanism's [3]_.
Proofs and fits are described in
``doc/completion.md``. Two entries at the same coordinates are two observations,
each protected on its own.

Callbacks of scikit-learn are told of every sweep or iteration; they are not passed
the data.

References
----------
.. [1] Wei, Li, Mao and Wang, "Applying Differential Privacy to Tensor
   Completion", 2022.
.. [2] Dwork, McSherry, Nissim and Smith, "Calibrating Noise to Sensitivity in
   Private Data Analysis", 2006.
.. [3] Dong, Roth and Su, "Gaussian Differential Privacy", 2022."""

_TEXTS = {
    "summary": _SUMMARY,
    "parameters": _PARAMETERS,
    "random_state": _RANDOM_STATE,
    "attributes": _ATTRIBUTES,
    "notes": _NOTES,
}
