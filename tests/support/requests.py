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


def numbered(request, number):
    """The same request with another number."""
    return edited(request, lambda found: found.update(number=number))


def share_of(request):
    """Share of the squared budget."""
    return sum(sums["share"] for sums in header(request)["sums"])


def total(answers, n_bits=64):
    """The sum of the parties' answers, as a protocol would give it."""
    return np.sum(answers, axis=0, dtype=np.uint64) & np.uint64(2**n_bits - 1)
