"""Which of these claims is true?
==============================

The mechanisms of five papers, at epsilon = 1.

Each is drawn as its paper has it, and as this package has it by default. The table and
the picture show what is claimed (delta is 1e-5 where there is one), what is true, and
what an audit of the released outputs proves: that epsilon is at least so much, at the
delta of the truth. A claim "holds"; or it is "loose", true of an epsilon smaller by a
tenth or more, so that noise is wasted; or it is "false", and "proved" to be so where
the audit alone refutes it. The inputs that are told apart are worst cases, or close.
Of Gaussian noise an audit bounds mu; completions are audited by canaries in one fit.

The papers: Yang, Xiang, Chen, Li and Li on tensors, and Yang, Xiang, Yu, Wang, Guo, Li
and Li on matrices (Gaussian noise with directions); Yuan, Tang, Huang and Wang (TLDP);
Wei, Li, Mao and Wang (completion); Cheng, Tang and Chinchali (task-aware encoding).
"""

import argparse
import itertools
import math
import warnings
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
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

DELTA = 1e-5
CONFIDENCE = 0.999
PUBLISHED, SOUND = "published", "sound"
TENSORS, MATRICES = "Yang et al., tensors", "Yang et al., matrices"
RESPONSE, COMPLETION, ENCODING = "Yuan et al.", "Wei et al.", "Cheng et al."
PAPERS = (TENSORS, MATRICES, RESPONSE, COMPLETION, ENCODING)


@dataclass(frozen=True)
class Row:
    """A claim, what is true, and the epsilon that was proved at the same delta."""

    paper: str
    mechanism: str
    variant: str
    claimed: tuple[float, float]
    true: tuple[float, float]
    audited: float

    @property
    def verdict(self):
        """By the truth; an audit is a witness."""
        claim, truth = self.claimed[0], self.true[0]
        if truth > claim * (1 + 1e-9):
            return "false, proved" if self.audited > claim else "false"
        return "loose" if truth < 0.9 * claim else "holds"


def directional():
    """Paper, name, mechanism and two inputs: those with Gaussian noise."""
    box = {"bounds": (0, 1), "delta": DELTA}
    weights = 1 / np.arange(1, 5)
    # Opposite corners of the box: all entries change, as much as they can.
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
    # One person is added, whose row is as long as it may be.
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
    """Theorem 3 with the (b - a) / sqrt(I) of the journal for (b - a) sqrt(I).

    That is I times less noise: that of the theorem as proved, for the epsilon at which
    its t is I times as large.
    """
    log_term = math.log(1 / DELTA)
    zeta = math.sqrt(size + 2 * math.sqrt(size * log_term) + 2 * log_term)
    t = size * (math.sqrt(zeta**2 + 2) - zeta)
    return clone(idn).set_params(epsilon=t**2 / 2 + zeta * t)


def responses():
    """Randomised response, plain and weighted: all of 16 entries change."""
    corners = np.zeros((4, 2, 2)), np.ones((4, 2, 2))
    for suffix, weights in (("", None), (", weighted", [0, 0.3, 0.6, 0.9])):
        for noise in ("laplace", "gaussian"):
            response = TensorRandomizedResponse(
                noise=noise, weights=weights, bounds=(0, 1)
            )
            yield RESPONSE, f"TLDP-{noise[0].upper()}{suffix}", response, corners


def encoders():
    """Task-aware encoding: two people far from those whose data it is fitted to."""
    far = np.array([100.0, 100.0, 0.0])
    task = [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    yield ENCODING, "task-aware", TaskAwareEncoder(task=task), (-far, far)
    yield ENCODING, "task-agnostic", TaskAgnosticEncoder(task=task), (-far, far)
    yield ENCODING, "privacy-agnostic", PrivacyAgnosticEncoder(task=task), (-far, far)


def variants(name, estimator):
    """As published and as it should be; some have only one of them."""
    if hasattr(estimator, "calibration"):
        classic = isinstance(estimator, GaussianMechanism)
        published = {"calibration": "classic" if classic else "published"}
        if isinstance(estimator, TensorRandomizedResponse):
            # At delta = 0, which is what is claimed, no epsilon holds.
            published["delta"] = DELTA
        yield PUBLISHED, clone(estimator).set_params(**published)
    if name != "IDN as printed":
        yield SOUND, clone(estimator)


def transformed(paper, name, mechanism, neighbours, n_trials, seed):
    """Claim, truth, and what many outputs of `transform` prove."""
    data = neighbours[0][np.newaxis]
    if paper == ENCODING:
        data = np.random.default_rng(0).normal(size=(200, 3))
    mechanism.set_params(random_state=seed).fit(data)
    truth = mechanism.privacy_guarantee_

    def draw(x, n):
        return mechanism.transform(np.repeat(x[np.newaxis], n, axis=0)).reshape(n, -1)

    projections = isinstance(mechanism, JohnsonLindenstrauss)
    # These are drawn one by one.
    n_trials = max(40, n_trials // 10) if projections else n_trials
    # Fisher's discriminant, from outputs that serve for nothing else.
    pilots = [draw(x, min(n_trials, 20_000)) for x in neighbours]
    covariance = sum(np.cov(rows, rowvar=False) for rows in pilots)
    difference = pilots[1].mean(axis=0) - pilots[0].mean(axis=0)
    direction = np.linalg.lstsq(np.atleast_2d(covariance), difference, rcond=None)[0]
    report = audit_mechanism(
        draw, *neighbours, delta=truth.delta, n_trials=n_trials, batched=True,
        confidence=CONFIDENCE, log_likelihood_ratio=lambda rows: rows @ direction,
        # Where the noise is Gaussian, a bound on mu says most.
        gaussian=paper in (TENSORS, MATRICES) and not projections,
    )  # fmt: skip
    # That epsilon is 1 also where another one gives the noise: in IDN as printed.
    _, delta = truth.claimed or (truth.epsilon, truth.delta)
    return (1.0, delta), (truth.epsilon, truth.delta), report.epsilon_lower


def published_fit(model, n_canaries):
    """Canaries in one column: beside it, what a row shows follows from its value."""
    # Steps that are long enough for rows to settle, and the column hardly moves.
    rate = 0.1 if model.perturbation == "gradient" else 0.02
    model.set_params(
        calibration="published", max_iter=100, learning_rate=rate, regularization=0,
        gradient_clip=1e-3,
    )  # fmt: skip
    where = np.column_stack([np.arange(n_canaries), np.zeros(n_canaries, dtype=int)])

    def run(bits):
        rows = model.fit(where, bits.astype(float)).decomposition_[1][0][:, 0]
        # The column may have either sign.
        return rows * np.sign(rows.mean())

    return run, lambda: model.privacy_guarantee_


def sound_fit(model, n_canaries):
    """Canaries that are alone in their rows and columns."""
    where = np.repeat(np.arange(n_canaries)[:, np.newaxis], 2, axis=1)

    def run(bits):
        return model.fit(where, bits.astype(float)).predict(where)

    return run, lambda: model.privacy_guarantee_


def bi_scaled_fit(scaler, model, n_canaries):
    """A completion after bi-scaling; a canary and three known values in every row."""
    where = np.argwhere(np.ones((n_canaries, 4)))
    values = np.tile([0.0, 0.0, 0.5, 1.0], (n_canaries, 1))

    def run(bits):
        values[:, 0] = bits
        scaler.fit(where, values.ravel())
        model.set_params(value_bounds=scaler.value_bounds_)
        model.fit(where, scaler.scale_values(where, values.ravel()))
        # Without the means, the predictions would be of no use.
        return scaler.means_[0]

    return run, lambda: compose(scaler.privacy_guarantee_, model.privacy_guarantee_)


def completions(n_canaries, seeds):
    """Name, variant, run with a canary for every bit, and what it guarantees."""
    for kind, completion in (("CP", CPCompletion), ("Tucker", TuckerCompletion)):
        for name in ("input", "gradient", "output"):
            for variant, fit in ((PUBLISHED, published_fit), (SOUND, sound_fit)):
                model = completion(
                    1, perturbation=name, value_bounds=(0, 1), delta=DELTA,
                    random_state=next(seeds),
                )  # fmt: skip
                yield f"{kind}, {name}", variant, *fit(model, n_canaries)
    for variant in (PUBLISHED, SOUND):
        # As published, all of the budget is for the completion.
        mine, other = (None, 1.0) if variant == PUBLISHED else (0.5, 0.5)
        scaler = BiScaler(mine, value_bounds=(0, 1), random_state=next(seeds))
        model = CPCompletion(
            1, epsilon=other, perturbation="input", calibration=variant,
            random_state=next(seeds),
        )  # fmt: skip
        fit = bi_scaled_fit(scaler, model, n_canaries)
        yield "bi-scaling, CP, input", variant, *fit


def all_rows(n_trials, random_state):
    """Rows of all claims, paper by paper."""
    # None for every seed if there is none.
    seeds = itertools.repeat(None)
    if random_state is not None:
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


def rounded(value, up):
    """Three digits of a bound, in the direction in which it stays one."""
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
        f"\nPairs are (epsilon, delta). Audited is a lower bound on epsilon, for the "
        f"delta of the\ntrue pair, with confidence {CONFIDENCE:g} in every row. TLDP "
        f"claims delta = 0, at which\nno epsilon holds; its truth is stated at "
        f"{DELTA:g}."
    )


# Powers of ten; beyond breaks of the axis are what is less, and infinity.
LEAST, MOST = -2, 2


def position(epsilon):
    """On an axis that is logarithmic between two breaks."""
    if epsilon < 10**LEAST:
        return LEAST - 0.5
    return min(math.log10(epsilon), MOST + 0.5)


def draw(rows, output):
    """A line a mechanism; what was published left, what is sound right."""
    places, ticks, headings, y = {}, {}, {}, 0
    for paper in PAPERS:
        headings[paper], y = y, y + 1
        for name in dict.fromkeys(r.mechanism for r in rows if r.paper == paper):
            places[paper, name], ticks[y], y = y, name, y + 1
    figure, axes = plt.subplots(
        1, 2, sharey=True, figsize=(11, 0.8 + 0.25 * y), layout="constrained"
    )
    titles = "as published", "in this package, by default"
    for axis, variant, title in zip(axes, (PUBLISHED, SOUND), titles, strict=True):
        drawn = [row for row in rows if row.variant == variant]
        at = np.array([places[row.paper, row.mechanism] for row in drawn])
        claims, truths, audits = (
            np.array([position(value) for value in values])
            for values in zip(
                *((r.claimed[0], r.true[0], r.audited) for r in drawn), strict=True
            )
        )
        axis.hlines(at, audits, truths, color="0.6", linewidth=1, zorder=1)
        axis.plot(
            claims, at, "|", color="black", markersize=15, markeredgewidth=2,
            label="claimed",
        )  # fmt: skip
        axis.plot(
            truths, at, "o", color="black", markerfacecolor="white", markersize=8,
            label="true",
        )  # fmt: skip
        axis.plot(
            audits, at, ">", color="black", markersize=5,
            label="audited: at least this",
        )  # fmt: skip
        for row, place in zip(drawn, at, strict=True):
            weight = "bold" if "false" in row.verdict else "normal"
            axis.text(
                1.02, place, row.verdict, transform=axis.get_yaxis_transform(),
                va="center", fontsize=9, weight=weight,
            )  # fmt: skip
        for place in set(places.values()) - set(at):
            axis.text(
                position(1), place, "not offered", ha="center", va="center",
                fontsize=8, color="0.4",
            )  # fmt: skip
        for edge in (LEAST - 0.25, MOST + 0.25):
            axis.axvline(edge, color="0.5", linestyle=(0, (2, 2)), linewidth=0.8)
        powers = range(LEAST, MOST + 1)
        axis.set_xticks(
            [LEAST - 0.5, *powers, MOST + 0.5],
            ["less", *(f"{10.0**power:g}" for power in powers), "\u221e"],
        )
        axis.set(xlim=(LEAST - 0.65, MOST + 0.65), xlabel="epsilon", title=title)
        for place in headings.values():
            axis.axhspan(place - 0.45, place + 0.45, color="0.9", zorder=0)
    axes[0].set_yticks(
        [*headings.values(), *ticks], [*headings, *ticks.values()], fontsize=9
    )
    for label, _ in zip(axes[0].get_yticklabels(), headings, strict=False):
        label.set_weight("bold")
    for axis in axes:
        axis.tick_params(axis="y", length=0)
    axes[0].set_ylim(y - 0.4, -0.6)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(output, dpi=130, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--trials", type=int, default=100_000,
        help="outputs on each of two inputs; a tenth as many canaries in completions",
    )  # fmt: skip
    parser.add_argument("--random-state", type=int, help="seed of noise and canaries")
    parser.add_argument("--output", default="which_claims.png", metavar="PNG")
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        # Claims that are unsound are the point of this example.
        warnings.simplefilter("ignore", UnsoundClaimWarning)
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        rows = all_rows(arguments.trials, arguments.random_state)
    table(rows)
    draw(rows, arguments.output)
    print(f"\nPicture in {arguments.output}")


if __name__ == "__main__":
    main()
