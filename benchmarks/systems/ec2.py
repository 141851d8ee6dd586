"""Layers and models that the authors of the DLBricks paper timed on six cloud systems in 2019."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from dlbricks_prediction.atlas import Contribution, Provenance, counts_matrix
from dlbricks_prediction.features import LANES, NAMES, Features

from dlbricks_core.facts import Setup, System
from dlbricks_core.facts.system import Cache

_KB, _MB = 2**10, 2**20


def _system(
    name: str, model: str, isa: tuple[str, ...], caches: Sequence[int], cpus: int
) -> System:
    sizes = zip((1, 2, 3), ("data", "unified", "unified"), caches, strict=True)
    return System(
        cpu=name, vendor="GenuineIntel", family="6", model=model, architecture="x86_64", isa=isa,
        logical_cpus=cpus, available_cpus=cpus, physical_cores=cpus // 2,
        available_cores=cpus // 2, hypervisor="unknown",
        caches=tuple(Cache(level, kind, size, 2) for level, kind, size in sizes),
    )  # fmt: skip


def _haswell(cpus: int) -> System:
    return _system("E5-2666 v3", "63", ("avx2",), (32 * _KB, 256 * _KB, 25 * _MB), cpus)


def _skylake(cpus: int, name: str = "8124M") -> System:
    sizes = (32 * _KB, _MB, 99 * _MB // 4)
    return _system(name, "85", ("avx2", "avx512f"), sizes, cpus)


SYSTEMS: Mapping[str, System] = {
    "c4.xlarge": _haswell(4),
    "c4.2xlarge": _haswell(8),
    "c5.large": _skylake(2),
    "c5.xlarge": _skylake(4),
    "c5.2xlarge": _skylake(8),
    "c5n.xlarge": _skylake(4, "8124M (c5n)"),
}
"""The systems by name. Facts that are not published are those of the processor's data sheet."""


@dataclass(frozen=True)
class Ec2:
    """Layers and models that were measured.

    Attributes:
        features: Features of each layer.
        us: Microseconds of each layer on each system; not a number where it was not measured.
        names: Names of the models.
        counts: How often each model has each layer: shape (models, layers).
    """

    features: Features
    us: Mapping[str, np.ndarray]
    names: tuple[str, ...]
    counts: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> Ec2:
        """Reads the two files of the folder."""
        with (folder / "layers.csv").open() as file:
            layers = list(csv.DictReader(file))
        with (folder / "models.csv").open() as file:
            models = list(csv.DictReader(file))
        made = [_features(row) for row in layers]
        features = Features(tuple(kind for kind, _ in made), np.array([row for _, row in made]))
        us = {s: np.array([float(row[f"{s}_us"] or "nan") for row in layers]) for s in SYSTEMS}
        counts = np.zeros((len(models), len(layers)))
        for row, model in zip(counts, models, strict=True):
            np.add.at(row, [int(each) for each in model["layer_ids"].split()], 1)
        return cls(features, us, tuple(model["name"] for model in models), counts)

    def contribution(self, system: str) -> Contribution:
        """Contribution of one system to the atlas, in which each layer is a network."""
        us = self.us[system]
        there = np.flatnonzero(np.isfinite(us))
        counts = counts_matrix([{int(i): 1} for i in there], len(us))
        return Contribution(
            SYSTEMS[system],
            setup_of(system),
            Provenance("", "2019", "2019", (), "the DLBricks paper"),
            self.features,
            counts,
            np.log(us[there] / 1e3),
            np.full(len(there), 1e-4),
            np.zeros(len(there)),
            tuple(f"ec2:{i}" for i in there),
            ("ec2",) * len(there),
        )


def setup_of(system: str) -> Setup:
    """How layers ran: MXNet, with a thread for each core."""
    cores = SYSTEMS[system].physical_cores
    return Setup("mxnet", "1.4", "{}", cores, "", "")


_KINDS: Mapping[str, str] = {
    "Aggregation": "reduce", "BatchNormalization": "scale", "Catenate": "copy",
    "ConstantArray": "copy", "ConstantPlus": "elementwise", "ConstantTimes": "elementwise",
    "Deconvolution": "convolution:transposed", "Dropout": "copy", "Extract": "gather",
    "Flatten": "view", "Linear": "product:weights", "LocalResponseNormalization": "normalization",
    "Normalization": "normalization", "Ordering": "other", "Padding": "copy", "Part": "copy",
    "Pooling": "pool", "Replicate": "copy", "Reshape": "view", "Resize": "resize",
    "SequenceLast": "gather", "Softmax": "softmax", "Threading": "elementwise",
    "Total": "elementwise", "Transpose": "transpose",
}  # fmt: skip
_EXPENSIVE = re.compile("Sigmoid|Tanh|Exp|Log|Sqrt")


def _features(row: Mapping[str, str]) -> tuple[str, list[float]]:
    """Kind and numbers of a layer, as :class:`Features` has them."""
    kind, spec = row["kind"], row["spec"]
    inputs = _inputs(spec)
    read = sum(math.prod(shape) for shape in inputs)
    written = _written(row, inputs, read)
    found = dict.fromkeys(NAMES, 0.0)
    weights, window, groups, stride = 0, 1, 1, 1
    rows, columns, depth = written / max(_last(row), 1), float(_last(row)), 1.0
    flops = float(written)
    name = _KINDS.get(kind, "")
    if kind in ("Convolution", "Deconvolution"):
        made, window, stride, groups = _convolution(spec)
        entered = inputs[0][0]
        if kind == "Convolution":
            columns, depth = made / groups, entered / groups * window
            rows = written / made
            name = "convolution:" + _grouping(groups, entered)
        else:
            columns, depth, rows = float(made), float(entered * window), written / made
        flops = 2 * written * depth if kind == "Convolution" else 2 * read * made * window
        weights = int(made * entered / groups * window)
    elif kind == "Linear":
        rows, columns, depth, weights = 1.0, float(written), float(read), written * read
        flops = 2.0 * weights
    elif kind == "Elementwise":
        name = "function" if _EXPENSIVE.search(spec) else "elementwise"
    elif kind == "Pooling":
        sizes = _list(spec, r"PoolingLayer\((\[[^\]]*\]), (\[[^\]]*\])")
        window, stride = math.prod(sizes[0]), math.prod(sizes[1])
        flops = float(written * window)
    found |= {
        "flops": _log(flops), "read_bytes": _log(4 * read), "weight_bytes": _log(4 * weights),
        "written_bytes": _log(4 * written), "rows": _log(rows), "columns": _log(columns),
        "depth": _log(depth), "window": _log(window), "stride": _log(stride),
        "groups": _log(groups), "column_waste": _waste(columns), "depth_waste": _waste(depth),
    }  # fmt: skip
    if name == "view":
        found |= dict.fromkeys(("flops", "read_bytes", "written_bytes"), 0.0)
    return name, list(found.values())


def _inputs(spec: str) -> list[tuple[int, ...]]:
    found = re.search(r"Inputs?=(\[\[.*?\]\]|\[[^\]]*\]|\d+)", spec)
    if not found:
        return []
    text = found[1]
    shapes = re.findall(r"\[([\d, ]+)\]", text)
    if shapes and "Inputs=" in spec and "[[" not in text:
        return [(int(each),) for each in shapes[0].split(",")]
    return [tuple(int(n) for n in each.split(",")) for each in shapes or [text]]


def _written(row: Mapping[str, str], inputs: Sequence[tuple[int, ...]], read: int) -> int:
    """Elements of the output; files give three of its axes at most."""
    axes = [int(row[name]) for name in ("out_channel", "out_height", "out_width") if row[name]]
    if inputs and len(inputs[0]) > 3 and row["kind"] not in ("Part", "Extract", "Aggregation"):
        return read // len(inputs)
    if row["kind"] in ("ConstantArray", "Replicate"):
        shape = re.search(r"\(\[([\d, ]+)\]\)", row["spec"])
        times = re.search(r"\((\d+),", row["spec"])
        if shape:
            return math.prod(int(n) for n in shape[1].split(","))
        if times:
            return read * int(times[1])
    return math.prod(axes)


def _last(row: Mapping[str, str]) -> int:
    return next(int(row[n]) for n in ("out_width", "out_height", "out_channel") if row[n])


def _convolution(spec: str) -> tuple[int, int, int, int]:
    """Channels made, elements of the window, product of strides, and groups."""
    made = int(re.search(r"Layer\((\d+)", spec)[1])
    (window,) = _list(spec, r"Layer\(\d+, (\[[^\]]*\])")
    (stride,) = _list(spec, r"Stride=(\[[^\]]*\])")
    groups = re.search(r"ChannelGroups=(\d+)", spec)
    return made, math.prod(window), math.prod(stride), int(groups[1]) if groups else 1


def _list(spec: str, pattern: str) -> list[tuple[int, ...]]:
    return [
        tuple(int(n) for n in each[1:-1].split(",")) for each in re.search(pattern, spec).groups()
    ]


def _grouping(groups: int, channels: int) -> str:
    return "dense" if groups == 1 else "depthwise" if groups == channels else "grouped"


def _log(number: float) -> float:
    return math.log2(number + 1)


def _waste(size: float) -> float:
    whole = max(size, 1)
    return math.log2(math.ceil(whole / LANES) * LANES / whole)
