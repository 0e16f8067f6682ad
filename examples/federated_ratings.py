"""Ratings that never leave the shops that hold them
===================================================

Six shops hold ratings of the same films by customers of their own. Each randomises its
ratings at its side, once, and keeps what it sends; a server that nobody trusts fits a
model to what has come. One shop is down when it is first asked, one is never seen
again after it has answered, one answer is lost on the way, and one shop joins when the
first model is long in use. None of this costs anybody a further epsilon: there is one
draw for every rating, and all else is computed from the draws.

The script prints the error after every round, beside that of a trusted server that has
all ratings; and all that the server could see: the messages, what a message says of a
rating, and how often the best guess that it allows is right.

Without arguments it runs on synthetic ratings. ``--ratings FILE`` takes your own:
comma-separated, one header line, then user, item and rating in the first three columns.
"""

import argparse
import io
import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.privacy import PrivacyBudget

NAMES = "Aarhus", "Basel", "Cork", "Delft", "Evora", "Fargo"
LEVELS = np.arange(0.5, 5.5, 0.5)
RANK, DELTA = 5, 1e-6


class Shop:
    """A party: the one place where its ratings are."""

    def __init__(self, X, y, most, random_state):
        self._X, self._y, self._most = X, y, most
        self._random_state, self._sent = random_state, None

    def answer(self, epsilon):
        """A message for the server: the same one, however often it is asked for."""
        if self._sent is None:
            # Made here, from parameters: no code comes from the server.
            client = CPCompletion(RANK, epsilon=epsilon, levels=LEVELS).client(
                self._random_state
            )
            with PrivacyBudget(self._most, DELTA) as budget:
                noisy = client.privatize(self._y)
            self.spent = budget.spent.epsilon
            message = io.BytesIO()
            # What may be sent again is what was drawn, never a second draw.
            np.savez_compressed(message, X=self._X, noisy=noisy)
            self._sent = message.getvalue()
        return self._sent


class Server:
    """Sees messages alone."""

    def __init__(self, epsilon, shape):
        self.inbox = {}
        self._model = CPCompletion(
            RANK, epsilon=epsilon, levels=LEVELS, shape=shape, max_iter=15
        )

    def receive(self, name, message):
        """Keep a message; a shop's earlier one is replaced."""
        self.inbox[name] = message

    def tables(self):
        """Coordinates and randomised ratings of every shop."""
        for message in self.inbox.values():
            with np.load(io.BytesIO(message)) as table:
                yield table["X"], table["noisy"]

    def fit(self):
        """A model of all that has come by now; it costs nothing to fit again."""
        X, noisy = map(np.concatenate, zip(*self.tables(), strict=True))
        return self._model.fit_randomized(X, noisy)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", metavar="FILE", help="your ratings (csv)")
    parser.add_argument("--epsilon", type=float, default=2.0, help="of one rating")
    parser.add_argument(
        "--random-state", type=int, help="seed of the noise; none for a real release"
    )
    parser.add_argument("--output", default="federated_ratings.png", metavar="PNG")
    return parser.parse_args()


def load(file):
    """Coordinates, ratings, and the shop of every rating: one for every customer."""
    if file is None:
        ratings = make_ratings(n_ratings=40_000, random_state=0)
        X, y = ratings.data, ratings.target
    else:
        columns = np.loadtxt(
            file, delimiter=",", skiprows=1, usecols=(0, 1, 2), dtype=str, quotechar='"'
        )
        X = CoordinateEncoder().fit_transform(columns[:, :2]).astype(int)
        y = columns[:, 2].astype(float)
    shop_of = np.random.default_rng(0).integers(len(NAMES), size=X[:, 0].max() + 1)
    return X, y, shop_of[X[:, 0]]


def rounds(shops, server, epsilon):
    """What happens, in words, and the model after it."""
    first, second, third, fourth, fifth, sixth = NAMES
    for name in (first, second, third, fourth):
        server.receive(name, shops[name].answer(epsilon))
    yield f"four shops answer, {fifth} is down", server.fit()
    # Nothing more can be asked of it: what it sent is all there is.
    del shops[second]
    lost = server.inbox.pop(third)
    server.receive(fifth, shops[fifth].answer(epsilon))
    yield f"{fifth} is back; the message of {third} is lost", server.fit()
    again = shops[third].answer(epsilon)
    assert again == lost
    server.receive(third, again)
    yield f"{third} sends the same again; {second} has gone for good", server.fit()
    server.receive(sixth, shops[sixth].answer(epsilon))
    yield f"{sixth} joins", server.fit()


def show_messages(server, epsilon):
    """Print what the server has."""
    print("\nAll that the server could see: one message a shop")
    for name, message in server.inbox.items():
        with np.load(io.BytesIO(message)) as table:
            X, noisy = table["X"], table["noisy"]
        pairs = zip(X[:3], noisy, strict=False)
        start = ", ".join(
            f"({user}, {item}) {value:.2f}" for (user, item), value in pairs
        )
        print(
            f"  {name:8s}{len(message):9,} bytes, {len(noisy):6,} ratings: {start}, ..."
        )
    table = server._model.client().randomizer.mechanism
    ratio = np.log(table.probabilities.max(axis=0) / table.probabilities.min(axis=0))
    print(
        f"The second number of a pair is the film, who rated what being public; what "
        f"follows is one of {len(table.outputs)} symbols. No symbol is more than "
        f"e^{ratio.max():.3f} times as likely under one rating as under another "
        f"(epsilon = {epsilon:g})."
    )
    return table


def guesses(server, table, truth):
    """How often the best guess of a rating is right: of its symbol, and of none."""
    noisy = np.concatenate([noisy for _, noisy in server.tables()])
    index = np.searchsorted((LEVELS[1:] + LEVELS[:-1]) / 2, truth)
    # An adversary who knows how frequent ratings are.
    frequency = np.bincount(index, minlength=len(LEVELS)) / len(index)
    outputs = np.array(table.outputs)
    symbol = np.abs(outputs - noisy[:, np.newaxis]).argmin(axis=1)
    guess = (table.probabilities * frequency[:, np.newaxis]).argmax(axis=0)
    return np.mean(guess[symbol] == index), frequency.max()


def draw(names, errors, references, table, output):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    left.plot(range(1, len(errors) + 1), errors, "o-", label="the server's model")
    styles = "--", ":", "-."
    for style, (name, error) in zip(styles, references.items(), strict=True):
        left.axhline(error, color="0.4", linestyle=style, label=name)
    left.set_xticks(range(1, len(errors) + 1), names)
    left.set(xlabel="shops whose messages are there", ylabel="held-out RMSE")
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    order = np.argsort(table.outputs)
    places, width = np.arange(len(order)), 0.4
    for level, shift in ((0, -0.5), (len(LEVELS) - 1, 0.5)):
        right.bar(
            places + shift * width, table.probabilities[level][order], width,
            label=f"a rating of {LEVELS[level]:g}",
        )  # fmt: skip
    right.set_xticks(places, [f"{table.outputs[k]:.1f}" for k in order], rotation=90)
    right.set(xlabel="what the server sees", ylabel="probability")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    figure.savefig(output, dpi=150)


def main():
    arguments = read_arguments()
    epsilon, seed = arguments.epsilon, arguments.random_state
    X, y, shop = load(arguments.ratings)
    test = np.random.default_rng(1).random(len(y)) < 0.1
    shape = tuple(X.max(axis=0) + 1)
    shops, truth = {}, {}
    for k, name in enumerate(NAMES):
        own = (shop == k) & ~test
        # No two shops may have the same noise.
        state = None if seed is None else 1000 * seed + k
        shops[name], truth[name] = Shop(X[own], y[own], epsilon, state), y[own]
    parties, server = list(shops.values()), Server(epsilon, shape)

    def error(model):
        predicted = np.clip(model.predict(X[test]), LEVELS[0], LEVELS[-1])
        return root_mean_squared_error(y[test], predicted)

    print(f"{'':58s}{'shops':>7s}{'RMSE':>8s}")
    errors, there = [], []
    for what, model in rounds(shops, server, epsilon):
        errors.append(error(model))
        there.append("".join(sorted(name[0] for name in server.inbox)))
        print(f"{what:58s}{there[-1]:>7s}{errors[-1]:8.3f}")
    options = {"levels": LEVELS, "shape": shape, "max_iter": 15, "random_state": seed}
    references = {
        "one machine, as much noise": {"epsilon": epsilon, "perturbation": "input"},
        "a trusted server": {"epsilon": epsilon},
        "no noise": {"epsilon": np.inf},
    }
    for name, own in references.items():
        model = CPCompletion(RANK, **options, **own).fit(X[~test], y[~test])
        references[name] = error(model)
        print(f"{name:65s}{references[name]:8.3f}")
    table = show_messages(server, epsilon)
    right, blind = guesses(
        server, table, np.concatenate([truth[name] for name in server.inbox])
    )
    # Of anybody who knows how frequent ratings are: Bayes' rule.
    odds = np.exp(epsilon) * blind / (1 - blind)
    print(
        f"The best guess of a rating, from its symbol and how frequent ratings are, is "
        f"right for {right:.1%}; without the symbol, for {blind:.1%}. Epsilon admits "
        f"{odds / (1 + odds):.1%}."
    )
    spent = max(party.spent for party in parties)
    print(
        f"Spent of one rating, by the shops' own budgets: epsilon = {spent:g} at most, "
        f"after {len(errors)} models."
    )
    draw(there, errors, references, table, arguments.output)
    print(f"\nPicture: {arguments.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
