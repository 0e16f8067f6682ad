"""Texts that the docstrings of all completions share."""

from .._docstrings import with_texts

_SUMMARY = """\
Fit it to the observed entries of a tensor, such as users' ratings of films, by their
coordinates and values, or to a dense tensor with NaN where nothing was observed. It
predicts the other entries. The fitted object reveals no more than `epsilon` (and, with
Gaussian noise, `delta`) about any one unit: an entry's value or, with ``unit=0``, a
user."""

_MODEL = """\
The axes of the tensor (users, films, weeks) are called modes. The model has an offset,
a bias for each index of each mode, and a factor for each mode: a matrix with a row for
each index. The fit randomises the values, or statistics of them, and fits the model to
the result."""

_PARAMETERS = """\
epsilon : float, default=1.0
    Budget of one unit. ``float("inf")`` adds no noise.
delta : float, default=1e-6
    The delta of the same budget. It is used only with Gaussian noise: in "gradient",
    and if `unit` is a mode.
perturbation : {"auto", "input", "gradient", "output", "statistics", "sums"}, \
default="auto"
    What is randomised. With ``unit="entry"``:

    - "auto": whichever of "input", "sums" and "statistics" has the least expected
      error, given the coordinates, the domain and the budget. `perturbation_` is the
      one that was taken.
    - "input": every value independently. The fit is variational, so there is no
      regularisation to tune. Best from about epsilon 3 on.
    - "sums": the sum of the values in every row of every mode, such as all ratings of
      one film. The sums determine biases; `rank` and `max_iter` are not used. Best at
      small epsilon.
    - "statistics": the sums, and then right-hand sides of regressions of the residuals,
      on the features of mode 1 if there are any (`side_information`, or those of
      `n_pattern_components`), and else of one mode's factors after the other.
    - "output": as "statistics", but with noise on the solutions of ridge regressions.
    - "gradient": the sum of the gradients of all entries, in each of `max_iter`
      iterations. The gradient of an entry's squared error in all biases and factors is
      clipped to length 0.5, with values in units of half their range.

    If `unit` is a mode, the fit has a fixed number of passes and does not use
    `max_iter`. Choose among "sums" (the count and the sum of residuals in every row of
    the other modes, which determine biases), "statistics" (these, and right-hand sides
    of regressions, which determine factors) and "auto" (one of the two, chosen by noisy
    counts).
unit : {"entry"} or int, default="entry"
    What is protected: the value of one entry, or all entries at one index of this mode.
    Rows of protected units are never pickled or deep-copied; `fold_in` computes them
    from the units' entries. To cross-validate, use
    ``GridSearchCV(model, grid, cv=UserKFold(), scoring=make_fold_in_scorer())``
    (for another mode than 0, ``UserKFold(mode=unit)``): with scikit-learn's splitters,
    one unit's entries would decide how other units are split.
value_bounds : tuple of (float, float), default=None
    Public range, to which values and predictions are clipped. If neither this nor
    `levels` is given, the range is read off the values with a ``PrivacyLeakWarning``,
    and the guarantee is void.
levels : array-like of shape (n_levels,), default=None
    All levels of the public scale, such as ``[1, 2, 3, 4, 5]`` for 1 to 5 stars.
    Values are rounded to the nearest level, so ``(1, 5)`` would turn every value into
    1 or 5; for a range, pass ``value_bounds=(1, 5)``. With up to 20 levels, "input"
    draws from a public table of probabilities, the one of least variance. With more
    levels, or without `levels`, it adds discrete Laplace noise.
level_prior : array-like of shape (n_levels,), default=None
    Public guess of the levels' probabilities, for up to 20 levels: the table of "input"
    has the least variance under it. Uniform by default. It must not come from the
    values that you fit to.
shape : tuple of int, default=None
    Sizes of the modes. By default they are the largest coordinates plus one. Declare
    the shape to cross-validate on coordinates: a fold may lack the largest ones, and
    `predict` refuses coordinates outside the shape. If `unit` is a mode, the shape and
    the meanings of the indices must be public: a shape read off the coordinates, with a
    ``PrivacyLeakWarning``, voids the guarantee. A `Recommender` sets it; a
    `CoordinateEncoder` with `categories` for every column has it as `declared_shape`.
side_information : dict of {int: array-like of shape (shape[mode], n_features)}, or \
list of these and None, default=None
    Public features of the rows of one mode, such as genres of films. That mode must be
    mode 1 or, if `unit` is a mode, the first of the others. The model has weights of
    the features for every row of mode 0, or for every unit, around a mean that all rows
    share. Features cost no budget.
biases : bool, default=True
    Whether to fit a bias for every index of every mode.
n_pattern_components : "auto" or int, default="auto"
    Largest number of features that the fit computes for the rows of mode 1 from the
    pattern of the coordinates (who rated what), which is public. They are the leading
    components of the pattern, as far as they exceed chance, and the number of entries
    of each row. Each row of mode 0 has weights for the features. "auto" takes all that
    exceed chance: up to 64, or up to 8 for a Tucker and where sums are released. Pass 0
    for no such features. If `unit` is a mode, the pattern is private: at most 8
    features come from a noisy release. The fit makes it only if there are enough units
    for it to stand out from the noise; only 0 rules it out.
smooth_modes : sequence of int, default=None
    Modes whose neighbouring indices are alike, such as time bins. Their prior ties
    every index to the next one; the randomised values determine how strongly. For
    "input" only.
max_iter : int, default=25
    Number of sweeps over the modes in "input", and of iterations in "gradient". Small
    CPs of three or more modes compare several starts, in further sweeps.
personal : bool, default=False
    With ``unit="entry"``, whether to answer users, the indices of mode 0, from their
    own raw values. If so, the fit computes each user's row from these values and what
    was released about the other modes; `predict`, `recommend` and `score` use it, and
    "auto" takes the perturbation that is expected to be best for such answers. The
    guarantee holds if answers for a user are shown to that user only: all that others
    see, factors, copies and pickles included, depends on that user's values only
    through the release. Copies and pickles lose the rows, until `fold_in`. If False,
    you may show every answer to anybody. All entries of an index of mode 0 must belong
    to one person,
    and mode 0 must not be among `smooth_modes`. Not for Dask input. If `unit` is a
    mode, its units are always answered from their own entries."""

RANDOM_STATE = """\
random_state : int or None, default=None
    None draws from the operating system's entropy, as a real release must. An
    int is for tests and papers: it repeats the noise in every clone, although
    never in two fits of one object."""

_ATTRIBUTES = """\
offset_ : float
    Estimated mean of the values. It is 0 in "input" without biases if the model fits
    clearly better without an offset.
shape_ : tuple of int
    Sizes of the modes.
value_bounds_ : tuple of (float, float)
    Range of the predictions.
perturbation_ : str
    The perturbation used. With "sums" only averages are learned: `rank` is not used,
    and without `side_information` everybody gets the same recommendations, minus the
    items they already have entries for. If `unit` is a mode, they are nearly the same:
    units differ in how much they follow the biases and the counts of items. The fit
    warns if "auto" takes "sums" and learns nothing else.
noise_variance_ : float
    Variance around the model, learned or assumed: of the randomised values in "input",
    of the original values otherwise.
residual_variance_ : float
    Variance of the original values around the model, learned from the randomised ones:
    the average over all entries.
    Set by "input" only.
n_iter_ : int
    Number of sweeps or iterations that were run.
n_features_in_ : int
    Number of modes."""

_NOTES = """\
**Who is protected.** With ``unit="entry"``, neighbouring data sets differ in the value
of one observed entry. Which entries are observed (the coordinates) is public. With
``unit=0``, one of two neighbouring data sets lacks all entries at one index of mode 0,
such as all ratings of one user (add or remove). The released factors (of items and of
time) are then (`epsilon`, `delta`)-differentially private. A user's row is computed
from these factors and that user's entries, and serves predictions in this process only:
no public attribute, deep copy or pickle holds it. (After a fit to Dask collections, the
workers that hold the user's entries keep it.) So all that other people learn is
(`epsilon`, `delta`)-differentially private too (joint differential privacy). With
``unit="entry"``, ``personal=True`` computes each user's row in the same way, from raw
values; `fold_in` does so for single users.

The guarantee of "input" is Theorem 1 of [1]_ with a public range; exact samplers of
discrete distributions replace floating-point noise. The guarantee of "sums",
"statistics" and "output" is that of the Laplace mechanism, composed over releases [2]_;
that of "gradient", and of all perturbations if `unit` is a mode, is that of the
Gaussian mechanism [3]_. The proofs are in ``doc/completion_proofs.md``.
Two entries at the same coordinates are two observations, each protected on its own.

scikit-learn's callbacks are called at every sweep or iteration, and see no data.

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
        "model": _MODEL,
        "parameters": _PARAMETERS,
        "random_state": RANDOM_STATE,
        "attributes": _ATTRIBUTES,
        "notes": _NOTES,
    }
)
