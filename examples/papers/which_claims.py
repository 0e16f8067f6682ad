"""Which of these claims is true?
==============================

Five papers propose mechanisms for tensors and state how private they are. Here each
mechanism runs at a claimed epsilon of 1, once as published and once as this package
calibrates it. Beside each claim stand the true guarantee and what an audit proves from
the outputs alone.

The papers are Yang, Xiang, Chen, Li and Li on tensors, and Yang, Xiang, Yu, Wang, Guo,
Li and Li on matrices (Gaussian noise with directions); Yuan, Tang, Huang and Wang
(randomised response, TLDP); Wei, Li, Mao and Wang (tensor completion); and Cheng, Tang
and Chinchali (task-aware encoding).

There are three verdicts on a claim:

* It **holds**.
* It is **loose**: true, but the true epsilon is smaller by more than a tenth, so part
  of the noise is wasted.
* It is **false**: the true epsilon is larger. It is "false, proved" where the audit
  alone refutes it.

No personal data are involved. An audit feeds a mechanism two inputs that differ in one
person or one value, and tells the outputs apart. The inputs here are worst cases, or
close to them.

The audits on this page are small and take about ten seconds. The table in
:doc:`/results` comes from ten times as many outputs::

    python examples/papers/which_claims.py --trials 100000 --random-state 0
"""

import argparse
import itertools
import math
import warnings
from collections import Counter
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from sklearn.base import clone

from sktensordp.audit import audit_mechanism, audit_one_run
from sktensordp.completion import BiScaler, CPCompletion, TuckerCompletion
from sktensordp.encoding import (
    PrivacyAgnosticEncoder,
    TaskAgnosticEncoder,
    TaskAwareEncoder,
)
from sktensordp.exceptions import PrivacyLeakWarning, UnsoundClaimWarning
from sktensordp.mechanisms import (
    GaussianMechanism,
    IndependentDirectionalNoise,
    JohnsonLindenstrauss,
    MatrixGaussian,
    MatrixMechanism,
    MatrixVariateGaussian,
    TensorRandomizedResponse,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)
from sktensordp.privacy import compose

# %%
# Options
# -------
# With more trials the audits prove more; the true guarantees stay the same. The random
# state makes the run repeatable, which is fine for an experiment but not for a real
# release.

parser = argparse.ArgumentParser(
    description="Claims of five papers beside the truth and the results of audits.",
    formatter_class=argparse.ArgumentDefaultsHelpFormatter,
)
parser.add_argument(
    "--trials", type=int, default=10_000,
    help="outputs on each of two inputs; completions get a tenth as many canaries",
)  # fmt: skip
parser.add_argument("--random-state", type=int, default=0, help="seed of all noise")
parser.add_argument("--output", metavar="FILE", help="also save the picture here")
arguments, _ = parser.parse_known_args()

# %%
# A row of the table
# ------------------
# A row holds a claim, the true guarantee, and the epsilon that the audit proved at the
# true delta. The true guarantee decides the verdict; the audit is independent evidence.

DELTA = 1e-5
CONFIDENCE = 0.999
PUBLISHED, SOUND = "published", "sound"
TENSORS, MATRICES = "Yang et al., tensors", "Yang et al., matrices"
RESPONSE, COMPLETION, ENCODING = "Yuan et al.", "Wei et al.", "Cheng et al."
PAPERS = (TENSORS, MATRICES, RESPONSE, COMPLETION, ENCODING)


@dataclass(frozen=True)
class Row:
    """A claim, the truth, and the epsilon that was proved at the same delta."""

    paper: str
    mechanism: str
    variant: str
    claimed: tuple[float, float]
    true: tuple[float, float]
    audited: float

    @property
    def verdict(self):
        """Whether the claim holds, is loose or is false."""
        claim, truth = self.claimed[0], self.true[0]
        if truth > claim * (1 + 1e-9):
            return "false, proved" if self.audited > claim else "false"
        return "loose" if truth < 0.9 * claim else "holds"


# %%
# Gaussian noise with directions
# ------------------------------
# Each function below yields the name of the paper, the name of the mechanism, the
# mechanism, and the two inputs that the audit tells apart. For noise on a box these are
# opposite corners: all entries change as much as they can.
#
# For IDN, the journal prints (b - a) / sqrt(I) in Theorem 3, where the proof needs
# (b - a) sqrt(I). Both readings are audited: that of the proof as "IDN", that of the
# journal as "IDN as printed".


def directional():
    """Mechanisms with Gaussian noise."""
    box = {"bounds": (0, 1), "delta": DELTA}
    weights = 1 / np.arange(1, 5)
    tensors, matrices = (
        (np.zeros(shape), np.ones(shape)) for shape in ((4, 2, 2), (4, 3))
    )
    idn = IndependentDirectionalNoise(utility=weights, **box)
    udn = UnimodalDirectionalNoise(utility=weights, **box)
    tvg = TensorVariateGaussian(utility=[weights, None, None], **box)
    yield TENSORS, "TVG", tvg, tensors
    yield TENSORS, "UDN", udn, tensors
    yield TENSORS, "IDN", idn, tensors
    yield TENSORS, "IDN as printed", as_printed(idn, tensors[0].size), tensors
    yield TENSORS, "Gaussian", GaussianMechanism(**box), tensors
    running_totals = np.tril(np.ones((4, 4)))
    matrix = MatrixMechanism(delta=DELTA, workload=running_totals)
    yield TENSORS, "matrix mechanism", matrix, (np.zeros(4), np.eye(4)[0])
    # One person is added, with the longest row that is allowed.
    people = np.zeros((3, 2)), np.eye(3, 2) * [1, 0]
    projections = JohnsonLindenstrauss(delta=DELTA, n_projections=8, norm_bound=1.0)
    yield TENSORS, "Johnson-Lindenstrauss", projections, people
    mgm = MatrixGaussian(utility=[weights, None], **box)
    mvg = MatrixVariateGaussian(row_covariance=np.diag(1 / weights), **box)
    yield MATRICES, "MGM", mgm, matrices
    yield MATRICES, "UDN", udn, matrices
    yield MATRICES, "IDN", idn, matrices
    yield MATRICES, "MVG", mvg, matrices


def as_printed(idn, size):
    """Theorem 3 with (b - a) / sqrt(I), as the journal has it, not (b - a) sqrt(I).

    This is I times less noise. The theorem as proved draws the same noise at a larger
    epsilon, at which its t is I times as large.
    """
    log_term = math.log(1 / DELTA)
    zeta = math.sqrt(size + 2 * math.sqrt(size * log_term) + 2 * log_term)
    t = size * (math.sqrt(zeta**2 + 2) - zeta)
    return clone(idn).set_params(epsilon=t**2 / 2 + zeta * t)


# %%
# Randomised response and task-aware encoding
# -------------------------------------------
# Randomised response is audited on corners of the box, too. The encoders are fitted to
# some people and audited on two others who are far from all of them.


def responses():
    """Randomised response, plain and weighted; all of the 16 entries change."""
    corners = np.zeros((4, 2, 2)), np.ones((4, 2, 2))
    for suffix, weights in (("", None), (", weighted", [0, 0.3, 0.6, 0.9])):
        for noise in ("laplace", "gaussian"):
            response = TensorRandomizedResponse(
                noise=noise, weights=weights, bounds=(0, 1)
            )
            yield RESPONSE, f"TLDP-{noise[0].upper()}{suffix}", response, corners


def encoders():
    """Encoders; the two inputs are people far from those in the fitting data."""
    far = np.array([100.0, 100.0, 0.0])
    task = [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    yield ENCODING, "task-aware", TaskAwareEncoder(task=task), (-far, far)
    yield ENCODING, "task-agnostic", TaskAgnosticEncoder(task=task), (-far, far)
    yield ENCODING, "privacy-agnostic", PrivacyAgnosticEncoder(task=task), (-far, far)


def variants(name, estimator):
    """The mechanism as published and as it should be; some have only one variant."""
    if hasattr(estimator, "calibration"):
        classic = isinstance(estimator, GaussianMechanism)
        published = {"calibration": "classic" if classic else "published"}
        if isinstance(estimator, TensorRandomizedResponse):
            # The papers claim delta = 0, at which no epsilon holds.
            published["delta"] = DELTA
        yield PUBLISHED, clone(estimator).set_params(**published)
    if name != "IDN as printed":
        yield SOUND, clone(estimator)


# %%
# The audit of a mechanism
# ------------------------
# The auditor calls ``transform`` many times on both inputs, projects the outputs on the
# direction that separates them best, and turns the error rates into a lower bound on
# epsilon. Where the noise is Gaussian it bounds mu instead, which proves more.


def transformed(paper, name, mechanism, neighbours, n_trials, seed):
    """Claim, truth, and the epsilon that many outputs of `transform` prove."""
    data = neighbours[0][np.newaxis]
    if paper == ENCODING:
        data = np.random.default_rng(0).normal(size=(200, 3))
    mechanism.set_params(random_state=seed).fit(data)
    truth = mechanism.privacy_guarantee_

    def draw(x, n):
        return mechanism.transform(np.repeat(x[np.newaxis], n, axis=0)).reshape(n, -1)

    projections = isinstance(mechanism, JohnsonLindenstrauss)
    # Projections are drawn one by one, which takes longer.
    n_trials = max(40, n_trials // 10) if projections else n_trials
    # Fisher's discriminant, from outputs that are used for nothing else.
    pilots = [draw(x, min(n_trials, 20_000)) for x in neighbours]
    covariance = sum(np.cov(rows, rowvar=False) for rows in pilots)
    difference = pilots[1].mean(axis=0) - pilots[0].mean(axis=0)
    direction = np.linalg.lstsq(np.atleast_2d(covariance), difference, rcond=None)[0]
    report = audit_mechanism(
        draw, *neighbours, delta=truth.delta, n_trials=n_trials, batched=True,
        confidence=CONFIDENCE, log_likelihood_ratio=lambda rows: rows @ direction,
        gaussian=paper in (TENSORS, MATRICES) and not projections,
    )  # fmt: skip
    # IDN as printed claims 1 too, although another epsilon sets its noise.
    _, delta = truth.claimed or (truth.epsilon, truth.delta)
    return (1.0, delta), (truth.epsilon, truth.delta), report.epsilon_lower


# %%
# The audit of a completion
# -------------------------
# A completion is fitted once, to a tensor with many canaries: entries whose value is 0
# or 1 by the toss of a coin. The auditor guesses the tosses from the fitted model. The
# more guesses are right, the larger epsilon must be.


def published_fit(model, n_canaries):
    """Canaries in one column; each row's factor then follows from its canary."""
    # With these steps the rows settle, while the column hardly moves.
    rate = 0.1 if model.perturbation == "gradient" else 0.02
    model.set_params(
        calibration="published", max_iter=100, learning_rate=rate, regularization=0,
        gradient_clip=1e-3,
    )  # fmt: skip
    where = np.column_stack([np.arange(n_canaries), np.zeros(n_canaries, dtype=int)])

    def run(bits):
        rows = model.fit(where, bits.astype(float)).decomposition_[1][0][:, 0]
        # The sign of the column is arbitrary.
        return rows * np.sign(rows.mean())

    return run, lambda: model.privacy_guarantee_


def sound_fit(model, n_canaries):
    """Canaries that are alone in their rows and columns."""
    where = np.repeat(np.arange(n_canaries)[:, np.newaxis], 2, axis=1)

    def run(bits):
        return model.fit(where, bits.astype(float)).predict(where)

    return run, lambda: model.privacy_guarantee_


def bi_scaled_fit(scaler, model, n_canaries):
    """A completion after bi-scaling; each row has a canary and three known values."""
    where = np.argwhere(np.ones((n_canaries, 4)))
    values = np.tile([0.0, 0.0, 0.5, 1.0], (n_canaries, 1))

    def run(bits):
        values[:, 0] = bits
        scaler.fit(where, values.ravel())
        model.set_params(value_bounds=scaler.value_bounds_)
        model.fit(where, scaler.scale_values(where, values.ravel()))
        # Predictions need the means, so they are released, too.
        return scaler.means_[0]

    return run, lambda: compose(scaler.privacy_guarantee_, model.privacy_guarantee_)


def completions(n_canaries, seeds):
    """Name, variant, a function from bits to outputs, and one for the guarantee."""
    for kind, completion in (("CP", CPCompletion), ("Tucker", TuckerCompletion)):
        for name in ("input", "gradient", "output"):
            for variant, fit in ((PUBLISHED, published_fit), (SOUND, sound_fit)):
                model = completion(
                    1, perturbation=name, value_bounds=(0, 1), delta=DELTA,
                    random_state=next(seeds),
                )  # fmt: skip
                yield f"{kind}, {name}", variant, *fit(model, n_canaries)
    for variant in (PUBLISHED, SOUND):
        # As published, the completion gets the whole budget.
        mine, other = (None, 1.0) if variant == PUBLISHED else (0.5, 0.5)
        scaler = BiScaler(mine, value_bounds=(0, 1), random_state=next(seeds))
        model = CPCompletion(
            1, epsilon=other, perturbation="input", calibration=variant,
            random_state=next(seeds),
        )  # fmt: skip
        fit = bi_scaled_fit(scaler, model, n_canaries)
        yield "bi-scaling, CP, input", variant, *fit


# %%
# Run all audits
# --------------
# This takes most of the time. Warnings that published claims are unsound are silenced,
# since that is the point of this page.


def all_rows(n_trials, random_state):
    """Rows of all claims, paper by paper."""
    seeds = itertools.count(1000 * random_state)
    rows = [
        Row(
            paper, name, variant,
            *transformed(paper, name, each, neighbours, n_trials, next(seeds)),
        )
        for paper, name, estimator, neighbours in (
            *directional(), *responses(), *encoders(),
        )
        for variant, each in variants(name, estimator)
    ]  # fmt: skip
    n_canaries = max(40, n_trials // 10)
    for name, variant, run, guarantee in completions(n_canaries, seeds):
        delta = DELTA if variant == SOUND and "gradient" in name else 0.0
        report = audit_one_run(
            run, n_canaries, n_guesses=n_canaries // 2, delta=delta,
            confidence=CONFIDENCE, random_state=next(seeds),
        )  # fmt: skip
        truth = guarantee()
        pair = truth.epsilon, truth.delta
        rows.append(
            Row(COMPLETION, name, variant, (1.0, delta), pair, report.epsilon_lower)
        )
    return sorted(rows, key=lambda row: PAPERS.index(row.paper))


with warnings.catch_warnings():
    warnings.simplefilter("ignore", UnsoundClaimWarning)
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    rows = all_rows(arguments.trials, arguments.random_state)

# %%
# The table
# ---------
# Pairs are (epsilon, delta). "Audited" is a lower bound on epsilon, at the delta of the
# true pair.


def rounded(value, up):
    """Three digits, rounded in the direction in which a bound remains true."""
    if not 0 < value < math.inf:
        return "infinite" if value else "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    units = math.ceil(value / unit * (1 - 1e-8)) if up else math.floor(value / unit)
    return f"{units * unit:.3g}"


def table(rows):
    """Print all rows."""
    widths = 23, 23, 11, 12, 18, 11, 13

    def show(*cells):
        line = "".join(f"{c:{w}}" for c, w in zip(cells, widths, strict=True))
        print(line.rstrip())

    show("paper", "mechanism", "variant", "claimed", "true", "audited", "verdict")
    for row in rows:
        claimed = f"({row.claimed[0]:g}, {row.claimed[1]:g})"
        true = f"({rounded(row.true[0], up=True)}, {row.true[1]:g})"
        audited = rounded(row.audited, up=False)
        cells = row.paper, row.mechanism, row.variant, claimed, true, audited
        show(*cells, row.verdict)
    print(
        f"\nAudited: a lower bound on epsilon at the delta of the true pair, "
        f"with confidence {CONFIDENCE:g} in every row.\n"
        f"TLDP claims delta = 0, at which no epsilon holds; its truth is at {DELTA:g}."
    )


table(rows)
for variant in (PUBLISHED, SOUND):
    verdicts = Counter(row.verdict for row in rows if row.variant == variant)
    counts = "; ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    print(f"{variant}: {counts}")

# %%
# The picture
# -----------
# All mechanisms claim an epsilon of 1, the vertical line. A circle is the true epsilon,
# a triangle the lower bound that the audit proved. An orange triangle to the right of
# the line refutes a published claim. No blue circle is right of it: the variants of
# this package keep what they promise.

# Powers of ten on the axis; beyond its breaks lie smaller values and infinity.
LEAST, MOST = -2, 2
COLORS = {PUBLISHED: "tab:orange", SOUND: "tab:blue"}


def position(epsilon):
    """Place on an axis that is logarithmic between two breaks."""
    if epsilon < 10**LEAST:
        return LEAST - 0.5
    return min(math.log10(epsilon), MOST + 0.5)


figure, axis = plt.subplots(figsize=(6, 9), layout="constrained")
ticks, headings, y = {}, {}, 0
for paper in PAPERS:
    headings[y], y = paper, y + 1
    of_paper = [row for row in rows if row.paper == paper]
    for name in dict.fromkeys(row.mechanism for row in of_paper):
        for row in of_paper:
            if row.mechanism == name:
                place = y + (0.2 if row.variant == SOUND else -0.2)
                truth, proved = position(row.true[0]), position(row.audited)
                color = COLORS[row.variant]
                axis.hlines(place, proved, truth, color=color, linewidth=1)
                axis.plot(truth, place, "o", color=color, markerfacecolor="white")
                axis.plot(proved, place, ">", color=color, markersize=4)
        ticks[y], y = name, y + 1
axis.axvline(0, color="black", linewidth=1, zorder=0)
for edge in (LEAST - 0.25, MOST + 0.25):
    axis.axvline(edge, color="0.5", linestyle=(0, (2, 2)), linewidth=0.8)
for place in headings:
    axis.axhspan(place - 0.45, place + 0.45, color="0.9", zorder=0)
axis.set_yticks([*headings, *ticks], [*headings.values(), *ticks.values()])
for label, _ in zip(axis.get_yticklabels(), headings, strict=False):
    label.set_weight("bold")
axis.tick_params(axis="y", length=0)
powers = range(LEAST, MOST + 1)
axis.set_xticks(
    [LEAST - 0.5, *powers, MOST + 0.5],
    ["less", *(f"{10.0**power:g}" for power in powers), "\u221e"],
)
axis.set(
    xlim=(LEAST - 0.65, MOST + 0.65), ylim=(y - 0.4, -0.6),
    xlabel="epsilon (1 is claimed everywhere)",
)  # fmt: skip
entries = [
    Line2D([], [], linestyle="", marker="o", color="0.3", markerfacecolor="white"),
    Line2D([], [], linestyle="", marker=">", color="0.3", markersize=4),
    *(Line2D([], [], color=COLORS[variant]) for variant in (PUBLISHED, SOUND)),
]
names = ["true epsilon", "proved by the audit", "as published", "in this package"]
figure.legend(entries, names, loc="outside lower center", ncols=2, frameon=False)
if arguments.output:
    figure.savefig(arguments.output, dpi=130)
plt.show()

# %%
# What it means
# -------------
# The published Gaussian mechanisms with directions are safe but wasteful: the
# tightest of them keeps a true epsilon of less than half of what it claims, and so adds
# more noise than the claim needs. The exceptions are false claims. IDN as printed adds
# too little noise. TLDP spends its epsilon on every entry of a tensor, not once.
# Completions with noise in the gradients or the output, and bi-scaling from raw values,
# keep no finite epsilon. Nor do the published encoders, for people who were not in the
# fitting data. What this package does by default holds in every row; the proofs
# are in :doc:`/soundness`.
#
# An audit proves a lower bound. A small bound is no proof of privacy: the attack may
# have been weak, or the outputs too few. That is why the verdict follows the true
# guarantee.
