"""Accuracy of predicting the latency of a large convolution from two tiles.

Convolutions that occur in no model are timed whole and in tiles, in the same rounds. It prints the
latencies of the whole and of both tiles, and the error of the prediction. The composer's
``tiling_error`` and the limits of ``dlbricks_core.analysis.tiles`` come from this table, for all
backends.

    python benchmarks/tiles.py mxnet 2
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.analysis import Volume
from dlbricks_core.analysis.tiles import tiles
from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.tiled import Tiled
from dlbricks_core.figures.figure import Measured, interval, relative_half_width
from dlbricks_core.ir import CanonicalModel, read_model
from dlbricks_core.passes import normalize
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import Observer, Request
from dlbricks_core.workflows.measuring import Target, measure

#: Channels in, channels out, size of the filter, height, width, stride, dilation.
CONVOLUTIONS = (
    (128, 128, 3, 240, 320, 1, 1),
    (128, 256, 3, 160, 160, 1, 1),
    (192, 192, 3, 160, 160, 1, 1),
    (256, 128, 3, 160, 160, 1, 1),
    (256, 256, 3, 200, 260, 1, 1),
    (256, 512, 3, 150, 150, 2, 1),
    (320, 320, 3, 90, 120, 1, 1),
    (384, 384, 3, 80, 80, 1, 1),
    (512, 512, 3, 60, 60, 1, 1),
    (512, 512, 3, 96, 96, 1, 2),
    (640, 320, 3, 72, 72, 1, 1),
    (1024, 2048, 3, 48, 48, 1, 1),
    (64, 64, 5, 320, 320, 1, 1),
    (512, 1024, 5, 56, 72, 1, 3),
    (64, 16, 11, 200, 300, 1, 1),
    (64, 32, 7, 200, 300, 1, 1),
    (96, 192, 7, 112, 160, 1, 2),
    (1024, 384, 3, 64, 48, 1, 12),
    (512, 512, 3, 72, 54, 1, 4),
    (512, 512, 3, 90, 120, 1, 1),
    (768, 768, 3, 56, 56, 1, 2),
    (2048, 256, 3, 60, 80, 1, 1),
    (256, 1024, 7, 48, 64, 1, 1),
)  # fmt: skip


def convolution(shape: Sequence[int]) -> CanonicalModel:
    """One layer that keeps its map's size, but for the stride."""
    inputs, outputs, size, height, width, stride, dilation = shape
    pad = dilation * (size - 1) // 2
    node = helper.make_node(
        "Conv", ["x", "w", "b"], ["y"], kernel_shape=[size] * 2, strides=[stride] * 2,
        dilations=[dilation] * 2, pads=[pad] * 4,
    )  # fmt: skip
    weights = {"w": (outputs, inputs, size, size), "b": (outputs,)}
    name = f"{inputs} to {outputs}, {size}x{size}/{stride}, dilation {dilation}, {height}x{width}"
    graph = helper.make_graph(
        [node],
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, inputs, height, width))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.zeros(s, np.float32), n) for n, s in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return normalize(read_model(proto, name=name))


def main() -> None:
    """Times the convolutions on the backend, with the threads and rounds of the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backend")
    parser.add_argument("threads", type=int)
    parser.add_argument("--runs", type=int, default=12)
    arguments = parser.parse_args()
    request = Request.of(arguments.backend, threads=arguments.threads, runs=arguments.runs)
    models = [convolution(shape) for shape in CONVOLUTIONS]
    bricks = BrickSet.of(models).bricks
    parts = {signature: tiles(brick) for signature, brick in bricks.items()}
    targets = [
        Target(each, "brick")
        for signature, brick in bricks.items()
        for each in (brick, *(tile.brick for tile in parts[signature]))
    ]
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore.open(Path(folder) / "tiles.sqlite")
        outcome = measure(targets, request, store, Observer())
    found = {
        key.subject.signature: Measured.of(each, request.protocol)
        for key, each in outcome.measurements.items()
    }
    plan = Tiled().plan(bricks, request.setup, request.target)
    told = plan.figures({s: each for s, each in found.items() if s not in bricks})
    errors = []
    for model, (signature, brick) in zip(models, bricks.items(), strict=True):
        gflop = Volume.of(brick.model).flops / 1e9
        head = f"{model.name:45}{gflop:6.1f} GFLOP {found[signature].value:7.1f} ms "
        if not parts[signature]:
            print(f"{head} no tiles")
            continue
        cost_ms = sum(found[tile.brick.signature].value for tile in parts[signature])
        latency = told[signature]
        errors.append(latency.value / found[signature].value - 1)
        half = relative_half_width(interval(latency.replicates))
        print(f"{head}{cost_ms:6.1f} ms {errors[-1]:+6.1%} (scatter {half:.1%})")
    print(
        f"{len(errors)} convolutions: mean absolute error {np.mean(np.abs(errors)):.1%}, root mean "
        f"square {math.sqrt(np.mean(np.square(errors))):.1%}, worst {max(errors, key=abs):+.1%}"
    )
    for text in (*outcome.warnings, *outcome.failures.values()):
        print(text)


if __name__ == "__main__":
    main()
