"""The physical baseline: expected latency of a layer on a processor, from a few facts about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

import numpy as np

from dlbricks_core.facts import System
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir.tensors import ML_DTYPES
from dlbricks_core.machine.speed import MULTIPLYING, UNKNOWN, generation_of, lanes, multiplying
from dlbricks_core.operators.operator import Lacks
from dlbricks_core.operators.table import OPERATORS, added_rows
from dlbricks_prediction.features import NAMES, Features
from dlbricks_prediction.kinds import class_of, group_of, sort_of, type_of

_MULTIPLY_ADDS = 4
"""Operations per element of a vector in a clock cycle: two units with one multiply-add each."""

_USUAL_LANES, _WIDER = 8, 1.5
"""Elements of a vector of 256 bits, and how much faster code gets with vectors of twice the width:
loads and loops gain less than arithmetic.
"""

_EFFICIENCY: Mapping[str, float] = {
    "convolution:dense": 0.6,
    "convolution:dense-volume": 0.4,
    "convolution:grouped": 0.2,
    "convolution:depthwise": 0.1,
    "convolution:depthwise-fours": 0.03,
    "convolution:depthwise-odd": 0.02,
    "convolution:depthwise-volume": 0.05,
    "convolution:depthwise-fours-volume": 0.02,
    "convolution:depthwise-odd-volume": 0.01,
    "convolution:transposed": 0.3,
    "convolution:transposed-volume": 0.2,
    "product:weights": 0.5,
    "product:activations": 0.4,
    "product:einsum": 0.4,
    # Operands are transposed first, an element at a time.
    "product:einsum-apart": 0.06,
    "attention": 0.3,
    "recurrent": 0.3,
    "function": 0.01,
    "softmax": 0.02,
    "softmax:inner": 0.01,
    "normalization": 0.05,
    # The work for each element is unknown: tens of cycles, as for a look-up.
    "other": 0.002,
    # A number at a time; ONNX Runtime's mean takes five times as long from operator set 19 on.
    "pool:max-line": 0.03,
    "pool:mean-line": 0.015,
    "pool:max-volume": 0.02,
    "pool:mean-volume": 0.02,
    "resize": 0.03,
    "resize:nearest": 0.01,
    "resize:nearest-volume": 0.003,
    # One number or row after another, at a place that depends on values: five cycles each.
    "gather": 0.006,
    # A library's function for each element.
    "function:mod": 0.002,
    "function:power": 0.003,
    "pool:powers": 0.001,
    "pool:powers-volume": 0.001,
    "reduce:powers": 0.001,
    "spectrum": 0.03,
    "spectrum:odd": 0.005,
    "linear": 0.3,
    "svm": 0.3,
    # A loop over numbers, and an exponential.
    "svm:rbf": 0.02,
    # At a place or a branch that depends on values: ten cycles each.
    "trees": 0.0015,
    "other:scatterelements": 0.003,
    "other:topk": 0.003,
}
"""Share of the peak that layers of a class reach; ``_ELSE`` for others."""

_RULED = 0.02
"""Share of the peak that layers of rare operators with a rule for their operations reach."""

_RULED_TIMES = 4
"""Factor within which nine of ten of these layers take the expected time."""


def _is_ruled(kind: str) -> bool:
    """Whether a kind is that of a rare operator with a rule for its operations."""
    return kind.startswith("other:") and kind in _ruled_kinds()


@cache
def _ruled_kinds() -> frozenset[str]:
    return frozenset(
        f"other:{op.rpartition('.')[2].lower()}"
        for op, row in (*OPERATORS.items(), *added_rows().items())
        if isinstance(row.kind, Lacks) and not isinstance(row.flops, Lacks)
    )


_TIMES: Mapping[str, float] = {
    "function:mod": 4,
    "function:power": 4,
    "linear": 2,
    "other": 30,
    "pool:max-line": 3,
    "pool:mean-line": 3,
    "pool:powers": 8,
    "reduce:powers": 8,
    "spectrum": 4,
    "spectrum:odd": 8,
    "svm": 4,
    "trees": 4,
}
"""Factor within which nine of ten layers take the expected time, by class or kind, for unmeasured
layers whose time does not follow from the sizes of tensors.
"""

_ELSE = 0.1
"""Share of the peak that layers of all other classes reach."""

_STRETCH = 25
"""Operations of a scalar loop that begin a new stretch of memory."""

_PASSES: Mapping[str, int] = {
    "elementwise:add-crossed": 1,
    "elementwise:mul-crossed": 1,
    # One pass over each of two tensors, and a third that merges them.
    "elementwise:where-crossed": 3,
    "elementwise:where-mixed": 3,
    "elementwise:where-rows": 3,
}
"""Passes of kinds without samples that go through their result stretch by stretch. Of similar kinds
with samples, these tell what a stretch costs.
"""

_PADDED = frozenset({"convolution:dense", "convolution:dense-volume"})
"""Kinds whose columns are computed in vectors: empty lanes of a vector take as long as used
lanes."""

_BANDWIDTHS = ((1, 150e9), (2, 80e9), (3, 25e9))
"""Bytes per second that one core of an unknown generation reads and writes in each level of cache.
"""

_MEMORY_BANDWIDTH = 10e9
"""Bytes per second that one core of an unknown generation reads from and writes to memory."""

_CALL_S = 0.5e-6
"""Seconds that a framework takes to start a layer on a core of an unknown generation."""

_CODES = frozenset({"codes", "int8", "uint8"})
"""Types of quantized numbers, which products take and most other layers copy."""

_INTEGERS = frozenset({"int64", "uint64", "int32", "uint32", "int16", "uint16"})
"""Types that products compute with in loops of the frameworks' own, and most other layers in
vectors.
"""

_WIDE_SHARES: Mapping[str, float] = {
    "float64": 1 / 2, "complex64": 1 / 4, "complex128": 1 / 8, "int64": 1 / 4, "uint64": 1 / 4,
    "int32": 1 / 2, "uint32": 1 / 2, "int16": 1 / 2, "uint16": 1 / 2,
}  # fmt: skip
"""Share of float32's operations per second that vectors reach at most with wide types. Integers
have no instruction that multiplies and adds, and those of 64 bits need several to multiply.
"""

_TUNED = 1 / 4
"""Share of that rate that frameworks reach at least with floats of wide types, for which they have
fewer tuned kernels.
"""

_TINY_FLOATS = frozenset(name for name in ML_DTYPES if name.startswith(("float8", "float4")))
"""Types that no processor computes with: numbers are converted by a table, a loop or vectors."""

_CONVERTED = 4
"""Operations of a scalar loop that convert one of them for each operation of its layer."""

_CODES_AT_ONCE = 4
"""Codes that an instruction for them multiplies in place of one float."""

_MULTIPLYING = frozenset({"attention", "convolution", "product", "recurrent"})
"""Classes whose operations are nearly all multiplications."""

_LIGHT = frozenset({"elementwise", "pool", "reduce", "scale"})
"""Classes whose time follows from the bytes of floats, tuned or not."""

_SUMMING, _DIVIDED = _MULTIPLYING | {"reduce"}, "elementwise:div"
"""Classes that may handle integers one by one, and the sort that always does: no instruction
divides a vector of them.
"""

_HIDDEN = 0.15
"""Share of its cost that a layer has if a framework fuses it into the previous one, and that a
network's ends have. A cost that is never observed alone is assumed to be small until measurements
show otherwise.
"""

_ENDS = ("enter:", "leave:")

_END_S = 1e-12
"""Seconds of handing over a tensor without elements, because zero has no logarithm."""

_FLOPS, _READ, _WEIGHTS, _WRITTEN, _COLD, _EMPTY, _ROWS = (
    NAMES.index(name)
    for name in (
        "flops", "read_bytes", "weight_bytes", "written_bytes", "cold_bytes", "column_waste",
        "rows",
    )
)  # fmt: skip

StringArray = np.ndarray[Any, np.dtype[np.str_]]


@dataclass(frozen=True)
class Processor:
    """The baseline's model of a processor, for a number of threads.

    Attributes:
        peak: Operations per second of all threads in vectors. A processor with more instructions
            per cycle also comes closer to its arithmetic peak, and wide vectors gain less than
            their width.
        caches: Bytes of each cache level that the threads may use, and bytes per second from it.
        memory: Bytes per second from memory.
        plain: Operations per second of all threads in a scalar loop.
        call_s: Seconds that a framework takes to start a layer.
        rates: Least and greatest operations per second on numbers of a type, if they differ from
            float32.
    """

    peak: float
    caches: tuple[tuple[float, float], ...]
    memory: float
    plain: float
    call_s: float
    rates: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, system: System, threads: int) -> Self:
        """The model that follows from the facts of a system.

        Threads beyond its CPUs add nothing.
        """
        threads = min(threads, system.logical_cpus or threads)
        generation = generation_of(system.vendor, system.family, system.model)
        ghz = max(system.max_mhz, default=0) / 1e3 or generation.ghz
        clock = ghz / UNKNOWN.ghz
        speed = ghz * generation.instructions
        known = [each for each in system.caches if each.kind != "instruction" and each.size]
        sizes = {each.level: each for each in known}
        caches = []
        for level, bandwidth in _BANDWIDTHS:
            if level in sizes:
                own = sizes[level].size * (threads if level < len(_BANDWIDTHS) else 1)
                caches.append((float(own), bandwidth * clock * threads))
        wide = _USUAL_LANES * _WIDER ** math.log2(lanes(system) / _USUAL_LANES)
        transfers = generation.transfers / UNKNOWN.transfers
        peak, plain = wide * _MULTIPLY_ADDS * speed * 1e9 * threads, speed * 1e9 * threads
        return cls(
            peak=peak,
            caches=tuple(caches),
            memory=_MEMORY_BANDWIDTH * transfers * threads**0.5,
            plain=plain,
            call_s=_CALL_S * UNKNOWN.ghz / speed,
            rates={**_of_wide_types(plain, peak), **_of_short_types(system, plain, peak)},
        )

    def handling(self, dtype: str) -> tuple[bool, int]:
        """Whether numbers of a type may be converted, and how many at most take a float's time."""
        slow, fast = self.rates.get(dtype, (self.peak, self.peak))
        return slow < self.peak, round(fast / self.peak)


def _of_short_types(system: System, plain: float, peak: float) -> Mapping[str, tuple[float, float]]:
    """Rates of short types: between a scalar loop and vectors of as many numbers as fit in them."""
    found = dict.fromkeys(_TINY_FLOATS, (plain / _CONVERTED, peak))
    found |= {name: (plain, peak) for name in MULTIPLYING if multiplying(system, name) == ()}
    if multiplying(system, "int8"):
        found["int8"] = plain, _CODES_AT_ONCE * peak
        # Where numbers stand for codes, floats can be computed with as well.
        found["codes"] = peak, _CODES_AT_ONCE * peak
    return {**found, **({"uint8": found["int8"]} if "int8" in found else {})}


def _of_wide_types(plain: float, peak: float) -> Mapping[str, tuple[float, float]]:
    """Rates of wide types: integers may be multiplied one by one, in a scalar loop."""
    return {
        dtype: (plain if dtype in _INTEGERS else _TUNED * share * peak, share * peak)
        for dtype, share in _WIDE_SHARES.items()
    }


def expected_ms(features: Features, processor: Processor) -> FloatArray:
    """Expected milliseconds of each layer: for its operations, its bytes, and its start.

    Args:
        features: Features of the layers.
        processor: The processor.

    Returns:
        Array of shape (layers,).
    """
    return np.asarray(seconds_by_term(features, processor).sum(axis=0) * 1e3)


TERMS = ("products", "loops", "caches", "memory", "starts")
"""Physical terms of the expectation: operations of products and convolutions, those of other
layers, bytes from caches and from memory, and the start of a layer.
"""


def seconds_by_term(features: Features, processor: Processor) -> FloatArray:
    """Expected seconds of each layer in each of :data:`TERMS`: shape (terms, layers)."""
    numbers = features.numbers
    efficiency = _by_kind(features, _efficiency)
    padded = _by_kind(features, lambda kind: sort_of(kind) in _PADDED)
    flops = (np.exp2(numbers[:, _FLOPS]) - 1) * np.exp2(padded * numbers[:, _EMPTY])
    moved = sum(np.exp2(numbers[:, column]) - 1 for column in (_READ, _WEIGHTS, _WRITTEN))
    cold = np.maximum(np.exp2(numbers[:, _COLD]) - 1, 0.0)
    computing = flops / (efficiency * _peaks(features, processor))
    passes = _by_kind(features, lambda kind: _PASSES.get(sort_of(kind), 0))
    computing += passes * (np.exp2(numbers[:, _ROWS]) - 1) * _STRETCH / processor.plain
    moving = np.maximum(moved - cold, 0.0) / _bandwidth(moved, processor)
    far = moving * _share_of_memory(moved, processor)
    ends = _by_kind(features, lambda kind: kind.startswith(_ENDS))
    multiplies = _by_kind(features, _is_product)
    seconds = np.array([
        np.where(multiplies, computing, 0.0),
        np.where(multiplies, 0.0, computing),
        moving - far,
        cold / processor.memory + far,
        np.where(ends, _END_S, processor.call_s),
    ])  # fmt: skip
    return np.asarray(seconds * np.where(_by_kind(features, is_hidden), _HIDDEN, 1.0))


def shares_of_terms(features: Features, processor: Processor) -> FloatArray:
    """Share of each of :data:`TERMS` in the expected time of each layer: shape (terms, layers)."""
    seconds = seconds_by_term(features, processor)
    return np.asarray(seconds / seconds.sum(axis=0))


def _is_product(kind: str) -> bool:
    """Whether the operations of layers of a kind are those of products of matrices."""
    return class_of(kind) in _MULTIPLYING and "depthwise" not in kind


def doubted(
    covariance: FloatArray, rows: Features, columns: Features, processor: Processor
) -> FloatArray:
    """A covariance of layers' errors, plus the uncertainty about types and kinds.

    Nine of ten layers are assumed to run between the least and the greatest rate, as far as
    operations dominate their time. Layers of one class and type have the same rate.

    Args:
        covariance: Covariance of the logarithms of latencies: an array of shape (layers of
            ``rows``, layers of ``columns``), to which is added.
        rows: Features of layers.
        columns: Features of layers.
        processor: The processor.
    """
    for find, uncertainties in (
        (_uncertain_layers, _uncertainties),
        (_unclear, _unclear_uncertainties),
    ):
        first = find(rows, processor)
        if not first:
            continue
        second = find(columns, processor)
        one, other = (
            uncertainties(rows.part(first), processor),
            uncertainties(columns.part(second), processor),
        )
        alike = one[1][:, None] == other[1][None, :]
        covariance[np.ix_(first, second)] += np.outer(one[0], other[0]) * alike
    return covariance


def _unclear(features: Features, _: Processor) -> list[int]:
    """Positions of the layers whose time does not follow from sizes."""
    unclear = set(filter(is_unclear, set(features.kinds)))
    return [i for i, kind in enumerate(features.kinds) if kind in unclear] if unclear else []


def _unclear_uncertainties(features: Features, _: Processor) -> tuple[FloatArray, StringArray]:
    """As :func:`_uncertainties`, for layers whose time does not follow from sizes."""
    times = np.array([_times(kind) for kind in features.kinds])
    return np.log(times) / NORMAL_HALF_WIDTH, np.array([sort_of(kind) for kind in features.kinds])


@cache
def is_unclear(kind: str) -> bool:
    """Whether the time of a kind of layers cannot be derived from sizes and measurements."""
    return _times(kind) > 1


def _times(kind: str) -> float:
    own = sort_of(kind)
    found = (_RULED_TIMES if _is_ruled(each) else _TIMES.get(each) for each in _names(own))
    return next(filter(None, found), 1.0)


def _names(own: str) -> tuple[str, str, str]:
    """Names of a kind: class and sort with the pattern, class and sort alone, and class."""
    return own, own.partition("-")[0], class_of(own)


def _uncertain_layers(features: Features, processor: Processor) -> list[int]:
    """Positions of the layers whose rate is not known."""
    rates = {kind: _rates(kind, processor) for kind in set(filter(type_of, features.kinds))}
    doubtful = {kind for kind, (slow, fast) in rates.items() if slow != fast}
    return [i for i, kind in enumerate(features.kinds) if kind in doubtful] if doubtful else []


def _uncertainties(features: Features, processor: Processor) -> tuple[FloatArray, StringArray]:
    """Standard deviation of each layer's logarithm, and the name of the rate that it is due to."""
    slow, fast = ({name: (rates[at],) * 2 for name, rates in processor.rates.items()}
                  for at in (0, 1))  # fmt: skip
    most, least = (expected_ms(features, replace(processor, rates=each)) for each in (slow, fast))
    names = np.array(["~".join(group_of(kind)) for kind in features.kinds])
    return np.log(most / least) / (2 * NORMAL_HALF_WIDTH), names


def _peaks(features: Features, processor: Processor) -> FloatArray:
    """Operations per second of each layer; for unusual types, the middle of all rates.

    A framework may have vectorized kernels for such a type, compute in float32, or use a scalar
    loop. Only a measurement shows which.
    """
    return _by_kind(features, lambda kind: math.sqrt(math.prod(_rates(kind, processor))))


def _rates(kind: str, processor: Processor) -> tuple[float, float]:
    """Least and greatest operations per second of layers of a kind."""
    usual = processor.peak, processor.peak
    dtype, own = type_of(kind), class_of(kind)
    alone = _SUMMING if dtype in _INTEGERS else _MULTIPLYING
    if dtype in _CODES | _INTEGERS and own not in alone:
        return usual
    if dtype in _WIDE_SHARES and own in _LIGHT and dtype not in _INTEGERS:
        return usual
    return processor.rates.get(dtype, usual)


def is_hidden(kind: str) -> bool:
    """Whether layers of a kind are almost free: fused into others, or ends of a network."""
    return "@" in kind or kind.startswith(_ENDS)


def _by_kind(features: Features, value: Callable[[str], float | bool]) -> np.ndarray[Any, Any]:
    """Value for the kind of each layer."""
    values = {kind: value(kind) for kind in set(features.kinds)}
    return np.array([values[kind] for kind in features.kinds])


def _efficiency(kind: str) -> float:
    own = sort_of(kind)
    if own.startswith(_DIVIDED) and type_of(kind) in _INTEGERS:
        own = "function:mod"
    ruled = _RULED if _is_ruled(own) else None
    return _EFFICIENCY.get(own) or ruled or _EFFICIENCY.get(class_of(kind), _ELSE)


def _bandwidth(nbytes: FloatArray, processor: Processor) -> FloatArray:
    """Bytes per second of layers by the size of their tensors, smooth across cache levels."""
    found = np.full(len(nbytes), processor.memory)
    for size, bandwidth in reversed(processor.caches):
        inside = 1 / (1 + (nbytes / size) ** 2)
        found = np.exp(inside * np.log(bandwidth) + (1 - inside) * np.log(found))
    return found


def _share_of_memory(nbytes: FloatArray, processor: Processor) -> FloatArray:
    """Weight of the memory's bandwidth in that of layers, by the size of their tensors."""
    found = np.ones(len(nbytes))
    for size, _ in processor.caches:
        found *= 1 - 1 / (1 + (nbytes / size) ** 2)
    return found
