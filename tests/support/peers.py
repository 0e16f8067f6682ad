"""Releases and audits that other people's software judges too, in words of neither.

`tests/benchmarks/bench_accountants.py` asks that software, and writes its answers to
tests/privacy/peers.json; `tests/privacy/test_peers.py` compares ours with them.
"""

import json

import numpy as np
from dp_accounting import dp_event

from sktensordp.audit import audit_one_run
from sktensordp.privacy import PrivacyGuarantee
from tests import ROOT
from tests.support.seams import (
    LevelDistribution,
    PureDpEvent,
    RandomizedResponseDpEvent,
    RevealingDpEvent,
)

STORED = ROOT / "tests" / "privacy" / "peers.json"

# Name: delta, and releases as (kind, parameters, count). Sampled noise has a rate and a
# noise multiplier. "levels" is randomised response: one of k levels is kept with a
# probability, and is otherwise drawn evenly from all k. "approximate" reveals
# everything with probability delta, and otherwise is randomised response.
COMPOSITIONS = {
    "sampled noise, rate 0.01": (1e-5, [("sampled", (0.01, 1.0), 1000)]),
    "sampled noise, rate 0.001": (1e-6, [("sampled", (0.001, 0.7), 10_000)]),
    "sampled noise, rate 0.1": (1e-5, [("sampled", (0.1, 2.0), 100)]),
    "sampled noise, rate 0.5": (1e-5, [("sampled", (0.5, 4.0), 30)]),
    "sampled noise, once": (1e-5, [("sampled", (0.2, 0.8), 1)]),
    "two sampled noises": (
        1e-5, [("sampled", (0.01, 0.9), 500), ("sampled", (0.05, 1.5), 60)],
    ),
    "sampled and plain noise": (
        1e-5, [("sampled", (0.02, 1.1), 300), ("gaussian", (2.0,), 1)],
    ),
    "Gaussian and Laplace noise": (
        1e-6, [("gaussian", (5.0,), 9), ("laplace", (0.1,), 20)],
    ),
    "Laplace noise": (1e-6, [("laplace", (0.1,), 200)]),
    "binary randomised response": (1e-6, [("response", (0.2,), 60)]),
    "binary randomised response, large": (1e-6, [("response", (1.0,), 50)]),
    "randomised response, 5 levels": (1e-6, [("levels", (5, 0.15), 40)]),
    "all of these": (
        1e-5,
        [("sampled", (0.01, 1.0), 200), ("gaussian", (3.0,), 1), ("laplace", (0.2,), 4),
         ("response", (0.1,), 10), ("levels", (4, 0.05), 5)],
    ),
    "revealing and sampled noise": (
        1e-5, [("approximate", (0.1, 1e-7), 20), ("sampled", (0.05, 2.0), 50)],
    ),
}  # fmt: skip

# Canaries, guesses, right guesses, delta; at confidence 0.95.
AUDITS = [
    (2000, 40, 39, 1e-5),
    (2000, 200, 190, 1e-5),
    (2000, 1000, 700, 1e-5),
    (1000, 400, 230, 1e-5),
    (500, 50, 50, 1e-6),
    (1000, 300, 260, 1e-3),
]


def _event(kind, parameters):
    if kind == "sampled":
        rate, multiplier = parameters
        noise = dp_event.GaussianDpEvent(multiplier)
        return dp_event.PoissonSampledDpEvent(rate, noise)
    if kind == "gaussian":
        return dp_event.GaussianDpEvent(*parameters)
    if kind == "laplace":
        return dp_event.LaplaceDpEvent(1 / parameters[0])
    if kind == "response":
        return PureDpEvent(*parameters)
    if kind == "levels":
        n_levels, keep = parameters
        return RandomizedResponseDpEvent(
            LevelDistribution("laplace", n_levels, 0), keep
        )
    epsilon, delta = parameters
    return RevealingDpEvent(delta, PureDpEvent(epsilon))


def ours(delta, releases):
    """Epsilon of a composition at `delta`."""
    events = [
        dp_event.SelfComposedDpEvent(_event(kind, parameters), count)
        for kind, parameters, count in releases
    ]
    guarantee = PrivacyGuarantee.from_event(
        dp_event.ComposedDpEvent(events), delta=delta, relation="add-or-remove",
        unit="sample", statement="A comparison.", source="none",
    )  # fmt: skip
    return guarantee.epsilon


def our_audit(n_canaries, n_guesses, n_right, delta, gaussian):
    """Bound on epsilon from so many right guesses."""

    def run(bits):
        # The most extreme scores, of which as many as there must be are wrong.
        wrong, scores = n_guesses - n_right, np.zeros(n_canaries)
        n_ones = n_guesses // 2
        for score, of, n in ((1, bits, n_ones), (-1, ~bits, n_guesses - n_ones)):
            n_wrong = min(wrong, n)
            wrong -= n_wrong
            for where, size in ((of, n - n_wrong), (~of, n_wrong)):
                scores[np.flatnonzero(where & (scores == 0))[:size]] = score
        return scores

    report = audit_one_run(
        run, n_canaries, n_guesses=n_guesses, delta=delta, gaussian=gaussian,
        random_state=0,
    )  # fmt: skip
    assert report.event.startswith(f"{n_right} of {n_guesses} bits"), report.event
    return report.epsilon_lower


def load():
    """What the peers answered, with their versions, the date and the command."""
    return json.loads(STORED.read_text())
