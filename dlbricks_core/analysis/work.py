"""Work of models: operations and bytes, as far as they follow without running a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dlbricks_core.analysis.flops import layer_flops
from dlbricks_core.bricks import CutModel
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators import Traffic, operator


@dataclass(frozen=True)
class Work:
    """Work of all layers of a model together.

    Attributes:
        flops: Floating-point operations of the layers whose operator has a rule.
        moved_bytes: Bytes that the layers read and write, each layer on its own: the
            tensors of every layer whose sizes are known.
        weight_bytes: Size of all weights, each once.
        without_flops: Layers that ``flops`` lacks, by operator.
        without_bytes: Layers that ``moved_bytes`` lacks, by operator.
    """

    flops: int
    moved_bytes: int
    weight_bytes: int
    without_flops: Mapping[str, int]
    without_bytes: Mapping[str, int]

    @classmethod
    def of(cls, model: CanonicalModel) -> Work:
        """Work of a model in canonical form."""
        flops, moved = 0, 0
        without_flops: Counter[str] = Counter()
        without_bytes: Counter[str] = Counter()
        for layer in model.layers:
            operations, traffic = layer_flops(model, layer), layer_bytes(model, layer)
            flops += operations or 0
            moved += traffic or 0
            without_flops[layer.qualified_op] += operations is None
            without_bytes[layer.qualified_op] += traffic is None
        weights = model.weight_bytes
        return cls(flops, moved, weights, +without_flops, +without_bytes)


@dataclass(frozen=True)
class Operations:
    """Floating-point operations of several models together, of layers whose operator has a rule.

    :class:`Work` names the layers of each model without a rule.

    Attributes:
        flops: Operations of all layers.
        unique: Operations of one layer of each signature.
    """

    flops: int
    unique: int

    @classmethod
    def of(cls, cuts: Iterable[CutModel]) -> Operations:
        """Adds up the layers of models, taken together."""
        occurrences: Counter[str] = Counter()
        unique: dict[str, int] = {}
        for cut in cuts:
            for signature, layer in zip(cut.layer_signatures, cut.model.layers, strict=True):
                if signature not in unique:
                    unique[signature] = layer_flops(cut.model, layer) or 0
                occurrences[signature] += 1
        every = sum(count * unique[signature] for signature, count in occurrences.items())
        return cls(every, sum(unique.values()))

    @property
    def saving(self) -> float | None:
        """Operations of all layers divided by those of unique layers; ``None`` if 0.

        If latency were proportional to operations, this would be the paper's benchmarking
        speedup for single layers.
        """
        return self.flops / self.unique if self.unique else None


def layer_bytes(model: CanonicalModel, layer: Layer) -> int | None:
    """Bytes of the tensors that a layer reads and writes, weights included, each once.

    ``None`` if a size is unknown or the layer is opaque.
    """
    reads, writes = layer.reads, [name for name in layer.outputs if name]
    known = all(model.tensors[name].is_static for name in (*reads, *writes))
    if layer.opaque or not known:
        return None
    row = operator(layer.qualified_op)
    if row.traffic is Traffic.VIEW:
        return 0
    written = sum(model.tensors[name].nbytes for name in writes)
    if row.traffic is Traffic.PICKED:
        reads = reads[1:]
        written *= 2
    picked = {name for at, name in enumerate(layer.inputs) if name and row.input(at).table}
    written += len(picked) * model.tensors[layer.outputs[0]].nbytes if picked else 0
    return written + sum(model.tensors[name].nbytes for name in reads if name not in picked)
