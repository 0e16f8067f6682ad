"""Requests to parties, as whoever carries them can read and change them."""

import json

import numpy as np


def header(request):
    """The first line of a request: everything but its arrays."""
    return json.loads(request.partition(b"\n")[0])


def edited(request, change):
    """The same request after ``change(header)``, with its arrays as they were."""
    line, _, block = request.partition(b"\n")
    found = json.loads(line)
    change(found)
    return json.dumps(found).encode() + b"\n" + block


def setting(request, *path, to):
    """The same request with another value at a path in its first line."""

    def change(found):
        for name in path[:-1]:
            found = found[name]
        found[path[-1]] = to

    return edited(request, change)


def with_array(request, name, change):
    """The same request with ``change(array)`` in place of one of its arrays."""
    places, start = header(request)["arrays"], len(request.partition(b"\n")[0]) + 1
    for found, kind, shape in places:
        size = 8 * int(np.prod(shape))
        if found == name:
            array = np.frombuffer(request[start : start + size], f"<{kind}")
            array = change(array.reshape(shape).copy()).tobytes()
            return request[:start] + array + request[start + size :]
        start += size
    raise KeyError(name)


def without_noise(request):
    """The same question to parties that add no noise."""
    found = header(request)
    asked = setting(request, "settings", "noise_shares", to=None)
    if found["question"]["kind"] == "pattern":
        # Two limbs for each of the products.
        asked = setting(asked, "n_numbers", to=2 * found["n_numbers"])
        asked = setting(asked, "n_bits", to=64)
    return asked


def numbered(request, number):
    """The same request with another number."""
    return setting(request, "number", to=number)


def signed(integers, n_bits):
    """The integers that have these residues, around 0."""
    half = np.uint64(2 ** (n_bits - 1))
    shifted = (integers.astype(np.uint64) + half) & np.uint64(2**n_bits - 1)
    return shifted.astype(np.int64) - half.astype(np.int64)


def share_of(request):
    """Share of the squared budget."""
    return sum(sums["share"] for sums in header(request)["sums"])


def total(answers, n_bits=64):
    """The sum of the parties' answers, as a protocol would give it."""
    return np.sum(answers, axis=0, dtype=np.uint64) & np.uint64(2**n_bits - 1)


class Sums:
    """A plain sum in place of secure aggregation; keeps what is asked and answered.

    Parameters
    ----------
    answering : list of Party
    n_bits : int, default=None
        Sums are modulo 2 to the power of this; None takes that of the request.
    present : callable
        Whether a party answers the request of a number.
    """

    def __init__(self, answering, n_bits=None, present=lambda number, party: True):
        self.answering, self.n_bits, self.present = answering, n_bits, present
        self.requests, self.answers = [], []

    def __call__(self, request):
        asked = header(request)
        self.requests.append(request)
        self.answers.append(
            [
                one.answer(request)
                for number, one in enumerate(self.answering)
                if self.present(asked["number"], number)
            ]
        )
        nothing = np.zeros(asked["n_numbers"], np.uint64)
        return total([nothing, *self.answers[-1]], self.n_bits or asked["n_bits"])


class Counted(Sums):
    """The same, with the number of parties whose answers are in a sum."""

    def __call__(self, request):
        return super().__call__(request), len(self.answers[-1])
