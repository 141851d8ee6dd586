"""Damaged symbol files: ``python fuzz_symbols.py --count 2000 --seed 1``."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from dlbricks_core.importers import ImportOptions

sys.path.append(str(Path(__file__).parents[3] / "tests" / "fuzz"))
from mutate_json import mutated, outcomes, report

TARGET = "dlbricks_mxnet.importer:MxnetImporter"
OPTIONS = ImportOptions(shapes={"data": (2, 3, 16, 16)})


def null(name: str, **more: Any) -> dict[str, Any]:
    """A variable."""
    return {"op": "null", "name": name, "inputs": [], **more}


def operator(op: str, name: str, inputs: list[int], **attrs: str) -> dict[str, Any]:
    """An operator that reads the first outputs of other nodes."""
    return {"op": op, "name": name, "attrs": attrs, "inputs": [[i, 0, 0] for i in inputs]}


NODES = [
    null("data"), null("conv_weight"), null("conv_bias"),
    operator("Convolution", "conv", [0, 1, 2], kernel="(3, 3)", num_filter="8"),
    null("bn_gamma"), null("bn_beta"), null("bn_mean"), null("bn_var"),
    operator("BatchNorm", "bn", [3, 4, 5, 6, 7], eps="0.001"),
    operator("Activation", "relu", [8], act_type="relu"),
    operator("Pooling", "pool", [9], kernel="(2, 2)", pool_type="max", stride="(2, 2)"),
    operator("SliceChannel", "halves", [10], num_outputs="2", axis="1"),
    {"op": "elemwise_add", "name": "sum", "inputs": [[11, 0, 0], [11, 1, 0]]},
    operator("Reshape", "flat", [12], shape="(0, -1)"),
    null("fc_weight"), null("fc_bias"),
    operator("FullyConnected", "fc", [13, 14, 15], num_hidden="10"),
    operator("softmax", "out", [16], axis="-1"),
]  # fmt: skip
GRAPH = {
    "nodes": NODES,
    "arg_nodes": [i for i, node in enumerate(NODES) if node["op"] == "null"],
    "node_row_ptr": list(range(len(NODES) + 1)),
    "heads": [[17, 0, 0]],
    "attrs": {"mxnet_version": ["int", 10901]},
}
WEIGHTS = {
    "conv_weight": (8, 3, 3, 3), "conv_bias": (8,), "bn_gamma": (8,), "bn_beta": (8,),
    "bn_mean": (8,), "bn_var": (8,), "fc_weight": (10, 196), "fc_bias": (10,),
}  # fmt: skip


def save_weights(path: Path) -> None:
    """Writes the parameters that belong to the graph."""
    from dlbricks_mxnet.framework import import_mxnet

    mx = import_mxnet()
    mx.nd.save(str(path), {f"arg:{name}": mx.nd.ones(size) for name, size in WEIGHTS.items()})


def run(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """The outcomes of damaged symbol files, beside whole parameters."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net-symbol.json"
        save_weights(Path(folder) / "net-0000.params")

        def write(content: bytes) -> Path:
            path.write_bytes(content)
            return path

        return outcomes(TARGET, json.dumps(GRAPH).encode(), write, count, seed, OPTIONS, mutated)


if __name__ == "__main__":
    report(run, 2000)
