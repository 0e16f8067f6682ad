"""
Learn from several shops without seeing their ratings
=====================================================

Each of six shops holds its own customers' ratings of the same films. No shop shows its
ratings to anybody, and nobody trusts the server that fits the model. So each shop
randomises its ratings once, before it sends them, and the server learns from what
arrives. Each rating is protected against everybody outside its shop, the server
included.

Things go wrong on the way: a shop is down, a shop disappears, a message is lost, a shop
joins late. None of this costs any more epsilon, because every model is computed from
the same randomised ratings.
"""

# %%
# What leaves a shop
# ------------------
# A client randomises ratings where they are. It needs public parameters alone, and
# every noisy rating keeps the epsilon, whatever the server does with it.

# sphinx_gallery_thumbnail_path = "images/thumbnails/federated_ratings.png"
from sktensordp.completion import CPCompletion

import textwrap

import numpy as np

levels = np.arange(0.5, 5.5, 0.5)
client = CPCompletion(rank=5, epsilon=2.0, levels=levels).client(random_state=0)
print(f"two ratings with noise: {client.privatize([4.5, 3.0]).round(1).tolist()}")
print(textwrap.fill(str(client.privacy_guarantee_), 88))

# %%
# The shops' ratings
# ------------------
# Every customer belongs to one shop. A tenth of the ratings is held out to measure the
# error. The films, the customers' numbers and the scale of the ratings are public. For
# real ratings, replace `make_ratings` with `fetch_movielens` and encode its ids.

from sktensordp.datasets import make_ratings

from sklearn.metrics import root_mean_squared_error

epsilon = 2.0
rank, max_iter = 5, 15
names = "Aarhus", "Basel", "Cork", "Delft", "Evora", "Fargo"

ratings = make_ratings(n_ratings=40_000, levels=levels, random_state=0)
X, y, shape = ratings.data, ratings.target, ratings.shape
shop_of = np.random.default_rng(0).integers(len(names), size=shape[0])[X[:, 0]]
test = np.random.default_rng(1).random(len(y)) < 0.1


def error_of(model):
    predicted = np.clip(model.predict(X[test]), levels[0], levels[-1])
    return root_mean_squared_error(y[test], predicted)


# %%
# What a shop does
# ----------------
# A shop makes its own `client` from public parameters, so it runs none of the server's
# code. The client randomises the ratings inside a `PrivacyBudget`, which would refuse
# to spend more than the shop allows. The shop keeps its message, and sends the same one
# when it is asked again. A second draw of noise would cost a second epsilon.


from sktensordp.privacy import PrivacyBudget

import io


class Shop:
    """A shop, the only place where its ratings are."""

    def __init__(self, X, y, random_state):
        self._X, self._y, self._random_state = X, y, random_state
        self._message = None

    def answer(self):
        """Return the shop's message to the server."""
        if self._message is None:
            client = CPCompletion(rank, epsilon=epsilon, levels=levels).client(
                self._random_state
            )
            with PrivacyBudget(epsilon, delta=1e-6) as budget:
                noisy = client.privatize(self._y)
            self.spent = budget.spent.epsilon
            file = io.BytesIO()
            np.savez_compressed(file, X=self._X, noisy=noisy)
            self._message = file.getvalue()
        return self._message


shops = {}
for k, name in enumerate(names):
    own = (shop_of == k) & ~test
    # The seeds make this page repeatable; a real shop leaves random_state at None. No
    # two shops may have the same seed, or they would draw the same noise.
    shops[name] = Shop(X[own], y[own], random_state=k)

# %%
# What the server does
# --------------------
# The server has an inbox with one message per shop, and fits a model to all messages
# with `fit_randomized`. It may do so as often as it likes.

inbox = {}


def open_message(message):
    """Return the coordinates and the randomised ratings of a message."""
    with np.load(io.BytesIO(message)) as table:
        return table["X"], table["noisy"]


def fit():
    """Return a model of everything that has arrived so far."""
    tables = map(open_message, inbox.values())
    pairs, noisy = map(np.concatenate, zip(*tables, strict=True))
    model = CPCompletion(
        rank, epsilon=epsilon, levels=levels, shape=shape, max_iter=max_iter
    )
    return model.fit_randomized(pairs, noisy)


rounds = []


def report(what):
    """Fit a model to the inbox and print its error."""
    error, initials = error_of(fit()), "".join(sorted(name[0] for name in inbox))
    rounds.append((initials, error))
    print(f"{what:56}{initials:>8}{error:8.3f}")


# %%
# Four rounds
# -----------
# The columns show the initials of the shops whose messages the server has, and the RMSE
# of the held-out ratings in stars. Basel's message stays useful after Basel has gone.

for name in ("Aarhus", "Basel", "Cork", "Delft"):
    inbox[name] = shops[name].answer()
report("four shops answer, Evora is down")

del shops["Basel"]  # nothing more can be asked of it
lost = inbox.pop("Cork")
inbox["Evora"] = shops["Evora"].answer()
report("Evora is back, Cork's message is lost")

inbox["Cork"] = shops["Cork"].answer()
assert inbox["Cork"] == lost
report("Cork sends the same message again, Basel has gone")

inbox["Fargo"] = shops["Fargo"].answer()
report("Fargo joins")

# %%
# If the shops trusted a server with their ratings, it could randomise every rating in
# the same way, and would do about as well: only the draws differ, which moves the error
# by about 0.005. At a small epsilon it would do better to add noise to sums over all
# ratings instead, which no shop can do alone. That gap, and not the dropouts, is what
# mistrust costs.

import matplotlib.pyplot as plt

same = {"rank": rank, "max_iter": max_iter}
references = {
    "trusted server, same method": {
        "epsilon": epsilon, "perturbation": "input", **same,
    },
    "trusted server, best method": {"epsilon": epsilon, "perturbation": "sums"},
    "no noise": {"epsilon": np.inf, **same},
}  # fmt: skip
for name, params in references.items():
    model = CPCompletion(levels=levels, shape=shape, random_state=0, **params)
    references[name] = error_of(model.fit(X[~test], y[~test]))
    print(f"{name:64}{references[name]:8.3f}")

initials, errors = zip(*rounds, strict=True)
figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
axes.plot(range(4), errors, "o-", label="six shops")
for style, (name, error) in zip(("--", ":", "-."), references.items(), strict=True):
    axes.axhline(error, color="0.4", linestyle=style, label=name)
axes.set_xticks(range(4), initials)
axes.set(
    xlabel="shops whose messages have arrived",
    ylabel="RMSE of held-out ratings (stars)",
    title=f"How good are six shops together? (epsilon = {epsilon:g} for a rating)",
)
figure.legend(loc="outside lower center", ncols=2)
plt.show()

# %%
# What the server sees
# --------------------
# The server sees one message per shop. Who rated what is public; the ratings are not.
# Each rating is replaced by one of a few symbols, drawn with probabilities that depend
# on the rating.

print("first entries of each message: (customer, film) symbol")
for name, message in inbox.items():
    pairs, noisy = open_message(message)
    start = ", ".join(
        f"({user}, {film}) {value:.2f}"
        for (user, film), value in zip(pairs[:3], noisy, strict=False)
    )
    print(f"{name:8}{len(message):7,} bytes, {len(noisy):5,} ratings: {start}, ...")

# %%
# The table of probabilities is public. The lowest and the highest rating give quite
# different symbols, yet never so different that a symbol reveals a rating: no symbol
# is more than e^epsilon times as likely under one rating as under another.

client = CPCompletion(rank, epsilon=epsilon, levels=levels).client()
table = client.randomizer.mechanism
symbols, probabilities = np.array(table.outputs), np.array(table.probabilities)
ratio = np.log(probabilities.max(axis=0) / probabilities.min(axis=0)).max()
print(
    f"{len(symbols)} symbols; none is more than e^{ratio:.3f} times as likely under "
    f"one rating as under another"
)

order = np.argsort(symbols)
places = np.arange(len(order))
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for level, shift in ((0, -0.2), (len(levels) - 1, 0.2)):
    axes.bar(
        places + shift, probabilities[level, order], width=0.4,
        label=f"if the rating is {levels[level]:g}",
    )  # fmt: skip
axes.set_xticks(places, [f"{symbols[k]:.1f}" for k in order], rotation=90)
axes.set(
    xlabel="symbol that the server sees", ylabel="probability",
    title=f"What does the server see of a rating? (epsilon = {epsilon:g})",
)  # fmt: skip
axes.legend()
plt.show()

# %%
# How well can the server guess?
# ------------------------------
# Suppose that the server knows how frequent each rating is. Its best guess from a
# symbol is then the rating with the largest posterior probability. Epsilon bounds how
# often this guess can be right, and the table stays well below the bound.

noisy = np.concatenate([open_message(message)[1] for message in inbox.values()])
own = [(shop_of == names.index(name)) & ~test for name in inbox]
truth = np.concatenate([y[of_shop] for of_shop in own])
index = np.searchsorted((levels[1:] + levels[:-1]) / 2, truth)
frequency = np.bincount(index, minlength=len(levels)) / len(index)
guess = (probabilities * frequency[:, np.newaxis]).argmax(axis=0)
symbol = np.abs(symbols - noisy[:, np.newaxis]).argmin(axis=1)
right, blind = np.mean(guess[symbol] == index), frequency.max()
odds = np.exp(epsilon) * blind / (1 - blind)
print(f"best guess without the symbols: {blind:6.1%} right")
print(f"best guess from the symbols:    {right:6.1%} right")
print(f"most that epsilon allows:       {odds / (1 + odds):6.1%} right")

# %%
# What it cost
# ------------
# After four models, each shop has spent epsilon once. So has Basel, although it has
# gone.

spent = max(shop.spent for shop in shops.values())
print(f"spent by each shop: epsilon = {spent:g} for each rating")
print(textwrap.fill(str(client.privacy_guarantee_), 88))

# %%
# Would a shuffler help?
# ----------------------
# Not with these messages. A shuffler hides who sent which message, but each rating
# travels with its customer and its film, which are public. In any order, they tell
# whose rating it is. So the guarantee refuses to be shuffled.

try:
    client.privacy_guarantee_.shuffled(len(noisy))
except ValueError as error:
    print(textwrap.fill(str(error), 88))

# %%
# It does help if the server wants the mean rating of a film and nothing else. Then each
# rater's device sends the film and one randomised rating, without a customer. A trusted
# shuffler passes on the messages about one film in random order. A rating hides among
# all ratings of the same film: who rated the film stays public, and what is protected
# is the value of one rating. A customer who rates ten films is in ten shuffles, and for
# all their ratings together, the ten guarantees add up.
#
# The table has the film with the most ratings, and (1, 1e-6)-differential privacy of a
# rating against the server: the epsilon of a message, and the standard error of the
# mean that its noise alone causes, in stars, for the rating that gets the most noise.
# The last row is a server that sees all ratings and adds Gaussian noise to their mean.

from sktensordp.mechanisms import GaussianMechanism, TensorRandomizedResponse
from sktensordp.model_selection import epsilon_before_shuffling

from sklearn.base import clone

film = np.bincount(X[:, 1]).argmax()
raters = int(np.sum(X[:, 1] == film))
ends, one_rating = (levels[0], levels[-1]), np.zeros((1, 1))
answer = TensorRandomizedResponse(bounds=ends, n_levels=len(levels))
local = epsilon_before_shuffling(
    answer, one_rating, epsilon=1.0, delta=1e-6, n_messages=raters
)


def error_of_mean(mechanism, n_messages):
    variance = mechanism.fit(one_rating).noise_variance_
    return np.sqrt(variance / n_messages)


sensitivity = (ends[1] - ends[0]) / raters
central = GaussianMechanism(1.0, delta=1e-6, sensitivity=sensitivity)
print(f"{raters} raters of film {film}")
print(f"{'':28}{'message':>8}{'error':>8}")
for name, eps, mechanism, n in (
    ("no shuffler", 1.0, clone(answer).set_params(epsilon=1.0), raters),
    ("shuffled", local, clone(answer).set_params(epsilon=local), raters),
    ("trusted server", np.nan, central, 1),
):
    shown = "-" if np.isnan(eps) else f"{eps:.2f}"
    print(f"{name:28}{shown:>8}{error_of_mean(mechanism, n):8.3f}")
