"""Clients of encoders as text: the same noise, no code, no seed."""

import json
import math

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sktensordp.encoding import EncoderClient, TaskAgnosticEncoder, TaskAwareEncoder
from sktensordp.papers import PublishedTaskAwareEncoder
from tests.support.refusing import assert_hostile_texts_are_refused

X, Y = make_classification(120, 5, random_state=0)
X[:, 3] = 2.0  # a column that does not vary enters no code
CLASSIFIER = LogisticRegression().fit(X, Y)
ENCODERS = {
    **{
        mechanism: TaskAwareEncoder(
            2.0, task=np.eye(2, 5), mechanism=mechanism,
            delta=1e-5 * (mechanism == "gaussian"),
        )
        for mechanism in ("laplace", "l2", "privunit", "gaussian")
    },
    "without noise": TaskAwareEncoder(math.inf, task=np.eye(2, 5)),
    "without noise, clipped": TaskAwareEncoder(math.inf, task=np.eye(2, 5), clip=1.0),
    "agnostic": TaskAgnosticEncoder(2.0),
    "learned": TaskAwareEncoder(4.0, task=CLASSIFIER, n_components=2),
    "learned with hidden units": TaskAwareEncoder(
        4.0, task=CLASSIFIER, n_components=2, encoder="mlp"
    ),
    "learned, gaussian": TaskAwareEncoder(
        4.0, delta=1e-5, task=CLASSIFIER, n_components=2, mechanism="gaussian"
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=ENCODERS)
def client(request):
    return ENCODERS[request.param].fit(X).client(random_state=3)


def test_a_client_made_of_text_releases_the_same_codes(client):
    text = client.to_json()
    assert "random" not in text
    shipped = EncoderClient.from_json(text)
    assert shipped.random_state is None
    assert shipped.to_json() == text
    assert shipped.privacy_guarantee_ == client.privacy_guarantee_
    assert shipped.sample_shape == client.sample_shape
    shipped.random_state = client.random_state
    for rows in (X, X.astype(np.float32), 1e300 * X):
        np.testing.assert_array_equal(shipped.privatize(rows), client.privatize(rows))


def test_texts_that_are_no_client_are_refused(client):
    assert_hostile_texts_are_refused(client, lambda found: found.privatize(1e300 * X))


def test_a_text_states_no_guarantee_that_it_does_not_calibrate():
    """A smaller epsilon in the text gives more noise, and not just a claim."""
    client = ENCODERS["laplace"].fit(X).client()
    fields = json.loads(client.to_json())
    strict = EncoderClient.from_json(json.dumps({**fields, "epsilon": 0.2}))
    assert strict.privacy_guarantee_.epsilon == 0.2
    scale, stricter = (
        one.randomizer.noise.lattice.noise_variance for one in (client, strict)
    )
    assert stricter == pytest.approx(100 * scale, rel=0.01)
    assert "guarantee" not in fields


def test_noise_of_a_paper_has_no_text():
    encoder = PublishedTaskAwareEncoder(2.0, task=np.eye(2, 5)).fit(X)
    with pytest.raises(ValueError, match="Only clients of the core"):
        encoder.client().to_json()
