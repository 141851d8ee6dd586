"""CapsNet: Sabour et al., "Dynamic Routing Between Capsules", NIPS 2017."""

from __future__ import annotations

from typing import Any

from dlbricks_mxnet.paper.blocks import Block, HybridBlock, chain, conv, nn, relu

_PRIMARY, _PRIMARY_SIZE = 1152, 8  # capsules, and the components of each
_DIGITS, _DIGIT_SIZE = 10, 16


def capsnet(routing_steps: int = 1) -> Block:
    """The network for digits; takes an image and the logits that routing starts with.

    Gives the digits' lengths, one that is longest for the digit that is seen, and the image
    as it is drawn again from the longest. The logits (zeros when it is used) are an input
    because all that depends on constants alone would be folded. It takes one image at a
    time: the longest capsule's place is one number.

    Args:
        routing_steps: How often the logits are improved before the last routing. The paper's
            table has the layers of one step, which its network folds over two copies of the
            predictions; unrolled, there are no copies to make or to choose from.
    """
    return _CapsNet(routing_steps)


class _CapsNet(HybridBlock):
    def __init__(self, routing_steps: int) -> None:
        super().__init__(prefix="")
        self._steps = routing_steps
        self._features = chain(conv(256, 9), relu(), conv(256, 9, 2))
        self._decoder = chain(
            *(nn.Dense(512), relu(), nn.Dense(1024), relu()),
            *(nn.Dense(28 * 28), nn.Activation("sigmoid")),
            lambda F, x: F.reshape(x, (0, 1, 28, 28)),
        )
        for block in (self._features, self._decoder):
            self.register_child(block)
        shape = (1, _PRIMARY, _DIGITS, _DIGIT_SIZE, _PRIMARY_SIZE)
        self.prediction = self.params.get("prediction", shape=shape)

    def hybrid_forward(self, F: Any, image: Any, logits: Any, prediction: Any) -> tuple[Any, Any]:
        """From capsules of image parts to capsules of digits, and back to an image."""
        parts = F.transpose(self._features(image), axes=(0, 2, 3, 1))
        parts = _squash(F, F.reshape(parts, (0, _PRIMARY, _PRIMARY_SIZE)))
        predictions = F.reshape(parts, (0, 0, 1, 1, _PRIMARY_SIZE))
        predictions = F.broadcast_axis(predictions, axis=(2, 3), size=(_DIGITS, _DIGIT_SIZE))
        predictions = F.sum(F.broadcast_mul(predictions, prediction), axis=4)
        for _ in range(self._steps):
            agreement = _repeat(F, _route(F, predictions, logits), 1, predictions) * predictions
            logits = logits + F.flatten(F.sum(agreement, axis=3))
        digits = _route(F, predictions, logits)
        lengths = F.sqrt(F.sum(digits**2, axis=2))
        place = F.argmax(lengths, axis=1, keepdims=True)
        longest = F.take(digits, place, axis=1, mode="raise")
        return lengths, self._decoder(F.reshape(longest, (0, _DIGIT_SIZE)))


def _route(F: Any, predictions: Any, logits: Any) -> Any:
    """Digit capsules: predictions of the parts, weighted by the parts' agreement."""
    weights = F.softmax(F.reshape(logits, (0, _PRIMARY, _DIGITS)))
    return _squash(F, F.sum(_repeat(F, weights, 3, predictions) * predictions, axis=1))


def _squash(F: Any, capsules: Any) -> Any:
    """Keeps the direction, and makes the length less than one."""
    squares = F.sum(capsules**2, axis=2)
    return _repeat(F, F.sqrt(squares) / (1 + squares), 2, capsules) * capsules


def _repeat(F: Any, x: Any, axis: int, like: Any) -> Any:
    """A new axis with the same along it."""
    return F.broadcast_like(F.expand_dims(x, axis=axis), like)
