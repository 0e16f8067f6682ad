#!/usr/bin/env python3
"""What one run proves of Gaussian noise, by two theorems.

    python tests/benchmarks/bench_one_run.py

Every canary is a number, 0 or 1, that is released with Gaussian noise of scale 1 / mu.
The auditor guesses the canaries with the most extreme outputs. The table has the mean
bound on epsilon over the runs, for several numbers of guesses, at the confidence of one
run: by (epsilon, delta) (Steinke, Nasr and Jagielski 2023), and by the trade-off curve
of mu-GDP (Mahloujifar, Melis and Chaudhuri 2024). The last column counts the runs whose
curve is rejected although it is the truth.
"""

import argparse

import numpy as np

from sktensordp.audit import audit_one_run
from tests.support.seams import epsilon_of_mu


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--canaries", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--confidence", type=float, default=0.95)
    options = parser.parse_args()
    m, delta = options.canaries, options.delta
    print(
        f"{m} canaries, delta = {delta:g}, confidence {options.confidence:g}, "
        f"mean of {options.runs} runs"
    )
    print("  mu  truth  guesses  (epsilon, delta)  curve  ratio  false alarms")
    for mu in (1.0, 4.0):
        truth, rng = epsilon_of_mu(mu, delta), np.random.default_rng(0)
        for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
            guesses = round(share * m)
            pairs = []
            for seed in range(options.runs):

                def run(bits, mu=mu, rng=rng):
                    return bits + rng.standard_normal(bits.size) / mu

                # The same bits and the same scores for both.
                state = rng.bit_generator.state
                reports = []
                for gaussian in (False, True):
                    rng.bit_generator.state = state
                    reports.append(
                        audit_one_run(
                            run, m, delta=delta, n_guesses=guesses, random_state=seed,
                            confidence=options.confidence, gaussian=gaussian,
                        )
                    )  # fmt: skip
                pairs.append([report.epsilon_lower for report in reports])
            plain, curve = np.mean(pairs, axis=0)
            alarms = int(np.sum(np.array(pairs)[:, 1] > truth))
            print(
                f"{mu:4g}  {truth:5.2f}  {guesses:7d}  {plain:16.2f}  {curve:5.2f}  "
                f"{curve / max(plain, 1e-9):5.2f}  {alarms:12d}"
            )


if __name__ == "__main__":
    main()
