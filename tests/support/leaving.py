"""What leaves through the door: sums before their noise, and who was added to them.

Like `replaying.recorded`, but nearer to the people: of every release it has the
question, the exact sums that enter it, and how many people each sum was made of. A fit
can go on with the releases of another, so that both ask the same questions.
"""

import importlib
import inspect
import math
import pkgutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from unittest import mock

import numpy as np

import sktensordp
from sktensordp.measure import Releases, Sums
from tests.support.points import POINTS, original


@dataclass
class Leaving:
    """One release.

    Attributes
    ----------
    question : Question
    step, sigma : float
        Of the noise.
    exact : list of ndarray
        The sums as they enter the release, over the factors on their noise.
    noisy : list of ndarray
        What the fit went on with.
    n_added : list of int
        How many people were added to each sum; of parties, by each.
    kinds : set of type
        Kinds of sums to which somebody was added.
    """

    question: object
    step: float
    sigma: float
    exact: list = field(default_factory=list)
    noisy: list = field(default_factory=list)
    n_added: list = field(default_factory=list)
    kinds: set = field(default_factory=set)

    @property
    def norm(self):
        """In which norm neighbouring sums are near each other."""
        (norm,) = {one.norm for one in self.question.sums}
        return norm

    @property
    def planned(self):
        """How far neighbouring sums may be apart."""
        sums = self.question.sums
        share, n_moved = (
            sum(getattr(one, name) for one in sums) for name in ("share", "n_moved")
        )
        if self.norm == "l1":
            return share + self.step * n_moved
        return math.sqrt(share) + self.step * math.sqrt(n_moved)

    def distance(self, other):
        """How far apart the exact sums are."""
        pairs = zip(self.exact, other.exact, strict=True)
        apart = np.concatenate([np.ravel(a - b) for a, b in pairs])
        return float(np.linalg.norm(apart, 1 if self.norm == "l1" else 2))

    @property
    def noise(self):
        """What was added, in standard deviations."""
        pairs = zip(self.noisy, self.exact, strict=True)
        return np.concatenate([np.ravel(a - b) for a, b in pairs]) / self.sigma


@contextmanager
def leaving(follow=None):
    """All releases while this lasts: a list of `Leaving`.

    Parameters
    ----------
    follow : list of Leaving, default=None
        Of another fit, whose released numbers take the place of this one's.
    """
    found, totals_of = [], []
    ask, select, add = Releases.ask, Releases.select, Sums.add
    noisy = original("noise of a release")

    def asks(self, people, question):
        found.append(Leaving(question, self.step, self.sigma))
        totals_of.clear()
        answers = ask(self, people, question)
        # Arrays of totals by identity: of equal sums, each has its own.
        counts = Counter()
        for totals, n in totals_of:
            counts[id(totals)] += n
        found[-1].n_added += counts.values()
        return answers

    def selects(self, candidates, question):
        found.append(Leaving(question, self.step, self.sigma))
        return select(self, candidates, question)

    def adds(self, totals, *data):
        weights, _ = self._weighed(*data)
        totals_of.append((totals, len(weights)))
        found[-1].kinds.add(type(self))
        add(self, totals, *data)

    def adds_noise(self, sums, totals, *more):
        one = found[-1]
        exact = [s.on_lattice(t) for s, t in zip(sums, totals, strict=True)]
        scales = [s.scale for s in sums]
        one.exact += [part / s for part, s in zip(exact, scales, strict=True)]
        released, sigma = noisy(self, sums, totals, *more)
        if follow is not None:
            noisy_before = follow[len(found) - 1].noisy
            pairs = zip(noisy_before, scales, strict=True)
            released = [part * s for part, s in pairs]
        one.noisy += [part / s for part, s in zip(released, scales, strict=True)]
        return [part.copy() for part in released], sigma

    with (
        mock.patch.object(Releases, "ask", asks),
        mock.patch.object(Releases, "select", selects),
        mock.patch.object(Sums, "add", adds),
        mock.patch.object(*POINTS["noise of a release"], adds_noise),
    ):
        yield found


@cache
def modules():
    """All modules of the package that can be imported here."""
    names = [m.name for m in pkgutil.walk_packages(sktensordp.__path__, "sktensordp.")]
    found = []
    for name in names:
        if name.endswith("__main__"):
            continue
        try:
            found.append(importlib.import_module(name))
        except ImportError:  # an optional dependency is missing
            continue
    return found


def kinds_of_sums():
    """All kinds of sums that can be released."""
    modules()
    return {
        kind
        for kind in _below(Sums)
        if not inspect.isabstract(kind) and kind.__module__.startswith("sktensordp")
    }


def _below(kind):
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def kinds_of_questions():
    """All classes of the package whose objects can be asked of people."""
    return {
        kind
        for module in modules()
        for kind in [*vars(module).values()]
        if inspect.isclass(kind)
        and kind.__module__ == module.__name__
        and all(hasattr(kind, name) for name in ("chunks_at_once", "add"))
        and not getattr(kind, "_is_protocol", False)
    }
