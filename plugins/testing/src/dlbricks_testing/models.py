"""Small models for the suites of plugins that run nothing: their bricks, and figures of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from dlbricks_core.analysis import Volume
from dlbricks_core.bricks import Brick, BrickSet
from dlbricks_core.facts import Setup, System
from dlbricks_core.facts.system import Cache
from dlbricks_core.figures import PROTOCOLS, Measured
from dlbricks_core.ir import CanonicalModel
from dlbricks_testing.cases import build

SETUP = Setup("backend", "1.0", "{}", 1, "interleaved/1", "0.1.0")
"""How the models run; nothing runs."""

SYSTEM = System(
    cpu="A Processor 1",
    vendor="A",
    isa=("avx2",),
    physical_cores=4,
    caches=(Cache(1, "data", 2**15, 2), Cache(2, "unified", 2**20, 2)),
    max_mhz=(4000,),
)
"""System that the models run on; nothing runs."""

CALL_MS = 0.01
"""Milliseconds that a call of the timer takes."""

_SPREAD = (0.97, 0.99, 1.0, 1.0, 1.01, 1.03)
"""Samples of a latency, relative to it."""

_GRAPHS = {
    "perceptron": "(float[4,8] x, float[8,16] w1, float[16,32] w2) => (y) "
    "{ a = MatMul(x, w1) b = Relu(a) c = MatMul(b, w2) d = Relu(c) y = Tanh(d) }",
    "residual": "(float[1,4,16,16] x, float[4,4,3,3] w1, float[4,4,1,1] w2) => (y) "
    "{ a = Conv<pads=[1,1,1,1]>(x, w1) b = Relu(a) c = Conv(b, w2) d = Add(c, x) "
    "e = Relu(d) y = GlobalAveragePool(e) }",
}


@cache
def models() -> tuple[CanonicalModel, ...]:
    """Two models in canonical form: a chain, and one with a branch."""
    return tuple(build(text, name).model for name, text in _GRAPHS.items())


def cut(granularity: int = 1, strategy: str = "chain") -> BrickSet:
    """The models' bricks.

    Args:
        granularity: Maximum number of layers in a brick.
        strategy: Name of the split strategy.
    """
    return BrickSet.of(models(), granularity, strategy)


def figures(
    bricks: Mapping[str, Brick], chosen: Iterable[str] | None = None, factor: float = 1.0
) -> dict[str, Measured]:
    """Figures that grow with operations and bytes, by signature.

    Args:
        bricks: The bricks, by signature.
        chosen: Signatures of the bricks with a figure; ``None`` for all.
        factor: Factor of all latencies.
    """
    return {
        signature: _figure(factor * _latency_ms(bricks[signature]))
        for signature in (bricks if chosen is None else chosen)
    }


def _latency_ms(brick: Brick) -> float:
    return 0.01 + 1e-5 * Volume.of(brick.model).expected(0.5)


def _figure(latency_ms: float) -> Measured:
    samples = tuple(CALL_MS + latency_ms * each for each in _SPREAD)
    return Measured(samples, PROTOCOLS["interleaved"], CALL_MS)
