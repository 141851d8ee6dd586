"""CapsNet's routing against the published procedure, written out in numpy."""

import numpy as np
import pytest
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.paper import PaperModels

from dlbricks_core.errors import ModelError
from dlbricks_core.importers import ImportOptions
from dlbricks_core.passes import normalize

mx = import_mxnet()


def squash(capsules):
    length = np.linalg.norm(capsules, axis=-1, keepdims=True)
    return capsules / length * length**2 / (1 + length**2)


def route(predictions, logits, steps):
    for step in range(steps + 1):
        weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        digits = squash((weights[:, :, None] * predictions).sum(axis=0))
        if step < steps:
            logits = logits + (predictions * digits).sum(axis=2)
    return digits


@pytest.mark.parametrize("steps", [1, 2])
def test_routing_by_agreement(steps):
    from dlbricks_mxnet.paper.capsnet import capsnet

    mx.random.seed(5)
    net = capsnet(steps)
    net.initialize(mx.init.Normal(0.05))
    rng = np.random.default_rng(5)
    image = rng.uniform(0, 1, (1, 1, 28, 28)).astype(np.float32)
    logits = rng.normal(0, 1, (1, 11520)).astype(np.float32)
    lengths, drawn = (result.asnumpy() for result in net(mx.nd.array(image), mx.nd.array(logits)))
    parts = net._features(mx.nd.array(image)).asnumpy()[0].transpose(1, 2, 0).reshape(1152, 8)
    weights = net.prediction.data().asnumpy()[0]
    predictions = np.einsum("pdij,pj->pdi", weights, squash(parts))
    digits = route(predictions, logits.reshape(1152, 10), steps)
    wanted = np.linalg.norm(digits, axis=1)
    assert wanted.std() > 0.01 * wanted.max()
    np.testing.assert_allclose(lengths[0], wanted, rtol=1e-4)
    again = net._decoder(mx.nd.array(digits[None, wanted.argmax()])).asnumpy()
    np.testing.assert_allclose(drawn, again, rtol=1e-4)


def test_one_image_at_a_time():
    with pytest.raises(ModelError, match="paper:4"):
        normalize(PaperModels().load("4", ImportOptions(batch=2)))
