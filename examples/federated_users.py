"""
Learn from several shops' customers without collecting their ratings
====================================================================

Six shops hold their own customers' ratings of the same films. They want one model of
all customers, in which everything about a customer is protected: what they rated, how,
and whether they rated anything. No shop shows a rating to anybody.

In :doc:`federated_ratings`, every single rating gets noise of its own before it leaves
a shop. Here the shops need less noise, because they add up first: each shop sums over
its customers, and a protocol of secure aggregation adds the shops' sums. Then the
server adds noise to the total once, and sees exact totals. Or each shop adds its share
of the noise before its sums leave it, and nobody sees an exact total.
"""

# %%
# The shops' ratings
# ------------------
# Every customer belongs to one shop. A tenth of the ratings is held out to measure the
# error. All shops and the server know the parameters of the model: the scale of the
# ratings, the films, and how many customers there may be.

# sphinx_gallery_thumbnail_path = "images/thumbnails/federated_users.png"
from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings

import numpy as np

epsilon, delta = 1.0, 1e-6
names = "Aarhus", "Basel", "Cork", "Delft", "Evora", "Fargo"
ratings = make_ratings(3_000, 200, 90_000, random_state=0)
X, y, shape = ratings.data, ratings.target, ratings.shape
shop_of = np.random.default_rng(0).integers(len(names), size=shape[0])[X[:, 0]]
test = np.random.default_rng(1).random(len(y)) < 0.1


def make_model(epsilon=epsilon):
    """Return the model on whose parameters all agree."""
    # The seed makes this page repeatable; a real server leaves random_state at None.
    return CPCompletion(
        rank=3, unit=0, epsilon=epsilon, delta=delta, levels=ratings.levels,
        shape=shape, random_state=0,
    )  # fmt: skip


# %%
# What a shop does
# ----------------
# `party` takes all ratings of the shop's customers. Its `answer` returns, for each
# request, the sum of the customers' contributions: integers, which the shop passes to
# nothing but the secure aggregation. Without `noise_shares` they are exact. With
# `noise_shares` they contain the shop's share of the noise, and the shop's own budget
# records the fit at its first answer. Later the shop loads the fitted model and folds
# its own customers in. Their rows stay in the shop.


from sktensordp.completion import party
from sktensordp.privacy import PrivacyBudget

import pickle


class Shop:
    """A shop, the only place where its ratings are."""

    def __init__(self, name):
        own = shop_of == names.index(name)
        self._train, self._test = own & ~test, own & test
        self.name = name

    def join(self, noise_shares=None):
        """Get ready to answer the requests of one fit."""
        # The seed makes this page repeatable; a real shop leaves random_state at None.
        self._party = party(
            make_model(), X[self._train], y[self._train], noise_shares=noise_shares,
            random_state=names.index(self.name),
        )  # fmt: skip
        self.budget = PrivacyBudget(epsilon, delta=delta)

    def answer(self, request):
        """Return the sums over the shop's customers, as integers."""
        with self.budget:
            return self._party.answer(request)

    def serve(self, message):
        """Load the model, fold the customers in, and predict held-out ratings."""
        model = pickle.loads(message).fold_in(X[self._train], y[self._train])
        return y[self._test], model.predict(X[self._test])


shops = [Shop(name) for name in names]

# %%
# What the server does
# --------------------
# `fit_aggregated` asks for one sum after the other. Here a plain sum stands in for the
# protocol of secure aggregation, such as that of Bonawitz et al. (2017), which would
# give the server this sum and nothing else. Sums are integers modulo a power of two, in
# which such protocols compute. Shops that are away when a request comes are left out of
# that sum. If the shops add noise, the server has to know how many of them are in it.


from sktensordp.completion import fit_aggregated

import json

from sklearn.metrics import root_mean_squared_error


class SecureAggregation:
    """A plain sum in place of a protocol; counts what each shop sends."""

    def __init__(self, is_present=lambda shop, number: True):
        self._is_present, self.n_bytes = is_present, 0
        self.answering = []

    def ask_with_number(self, request):
        """Return the sum and the number of answers in it."""
        total = self.ask(request)
        return total, self.answering[-1]

    def ask(self, request):
        """Return the sum of the answers of all shops that are present."""
        about = json.loads(request.partition(b"\n")[0])
        number, n_numbers = about["number"], about["n_numbers"]
        present = [s for s in shops if self._is_present(s.name, number)]
        self.answering.append(len(present))
        self.n_bytes += 8 * n_numbers
        zeros = np.zeros(n_numbers, dtype=np.uint64)
        return sum((shop.answer(request) for shop in present), start=zeros)


def error_of(model):
    """Return the error when every shop serves its own customers."""
    message = pickle.dumps(model)
    served = [shop.serve(message) for shop in shops]
    return root_mean_squared_error(*map(np.concatenate, zip(*served, strict=True)))


errors = {}


def fit(what, aggregation, noise_shares=None):
    """Fit a model to the shops' sums, and print its error."""
    for shop in shops:
        shop.join(noise_shares)
    ask = aggregation.ask_with_number if noise_shares else aggregation.ask
    model = fit_aggregated(make_model(), ask, noise_shares=noise_shares)
    errors[what] = error_of(model)
    stated, fewest = model.privacy_guarantee_.epsilon, min(aggregation.answering)
    print(f"{what:36}{fewest:8}{stated:9.3g}{errors[what]:8.3f}")
    return model


# %%
# The server adds the noise: shops that drop out
# ----------------------------------------------
# The columns show the least number of shops that answered a request, the epsilon of the
# model, and the RMSE of held-out ratings in stars. A shop that drops out in the middle
# contributes to the sums before, and to none after. That costs accuracy, and no budget:
# noise is added to every sum in full, whoever answers.

from sktensordp.exceptions import AveragesOnlyWarning

import warnings

print(f"{'':36}{'fewest':>8}{'epsilon':>9}{'RMSE':>8}")
everybody = SecureAggregation()
model = fit("all six shops answer", everybody)
fit(
    "Basel and Cork drop out on the way",
    SecureAggregation(lambda name, number: number < 6 or name not in ("Basel", "Cork")),
)
rng = np.random.default_rng(2)
fit(
    "every shop misses a fifth of them",
    SecureAggregation(lambda name, number: rng.random() < 0.8),
)
with warnings.catch_warnings():
    # Of the customers of one shop, only averages can be learned. The fit warns of that.
    warnings.simplefilter("ignore", AveragesOnlyWarning)
    fit("only Aarhus ever answers", SecureAggregation(lambda name, _: name == "Aarhus"))

# %%
# If all answer, the model is the one that a trusted server would fit to all ratings, to
# the last bit. A model without noise shows what protection costs.

trusted = make_model().fit(X[~test], y[~test])
same = np.array_equal(trusted.factors_[1], model.factors_[1])
print(f"the same as with all ratings in one place: {same}")
errors["no noise"] = error_of(make_model(np.inf).fit(X[~test], y[~test]))
print(f"{'no noise':53}{errors['no noise']:8.3f}")

# %%
# The shops add the noise: nobody sees an exact total
# ---------------------------------------------------
# All shops and the server agree on `NoiseShares`: of six shops, at most one will be
# away at a time, and at most one shows its noise to others. So every sum has the noise
# of at least four honest shops, and each shop adds a quarter of the variance that the
# server would add. The guarantee now holds against the server, too. What it costs
# depends on how many shops answer: if all six do, the sums have six quarters of that
# variance.
#
# In the last line, two shops drop out on the way, where one was allowed for. The fit
# ends with an error.

from sktensordp.completion import NoiseShares

import textwrap

import matplotlib.pyplot as plt

shares = NoiseShares(len(names), n_dropouts=1, n_colluders=1)

print(f"{'':36}{'fewest':>8}{'epsilon':>9}{'RMSE':>8}")
with_noise = SecureAggregation()
shared = fit("shares: all six shops answer", with_noise, shares)
fit(
    "shares: one shop is away at a time",
    SecureAggregation(lambda name, number: names[number % 6] != name),
    shares,
)
print("spent by each shop:", *(f"{shop.budget.spent.epsilon:.3g}" for shop in shops))
try:
    fit(
        "shares: Basel and Cork drop out",
        SecureAggregation(
            lambda name, number: number < 6 or name not in ("Basel", "Cork")
        ),
        shares,
    )
except ValueError as error:
    print(textwrap.fill(str(error), 88))

figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axes.plot(list(errors.values()), list(errors), "o")
axes.axvline(errors["no noise"], color="0.6", linestyle=":", zorder=0)
axes.grid(axis="y", color="0.9")
axes.set(xlabel=f"RMSE (stars), epsilon = {epsilon:g} for each customer")
figure.suptitle("What do absent shops and shares of noise cost?")
axes.invert_yaxis()
plt.show()

# %%
# What goes over the wire
# -----------------------
# A request is the released part of the model, and an answer has one number for each
# sum. Neither grows with the number of customers, except for a few bits. With noise in
# shares, answers are hardly longer, because the noise is small beside the sums.

n_requests = len(everybody.answering)
print(
    f"{n_requests} requests; each shop sends {everybody.n_bytes / 1024:.1f} KiB in "
    f"all, for {len(X):,} ratings of {shape[0]:,} customers"
)
print(f"with noise in shares: {with_noise.n_bytes / 1024:.1f} KiB")
print(f"the model that shops load: {len(pickle.dumps(model)) / 1024:.0f} KiB")

# %%
# What it cost
# ------------
# If the server adds the noise, it records the release once per fit. The guarantee says
# whom the shops have to trust: the server.

print(textwrap.fill(str(model.privacy_guarantee_), 88))

# %%
# If the shops add the noise, each shop's budget records the release. The statement says
# what has to be true: here, that the secure aggregation reveals no sum of fewer than
# five answers.

print(textwrap.fill(str(shared.privacy_guarantee_), 88))
print(textwrap.fill(shared.privacy_guarantee_.statement, 88))
