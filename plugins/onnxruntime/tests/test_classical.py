"""Operators of classical machine learning, as scikit-learn's and XGBoost's exporters write them."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_onnxruntime.timer import OnnxruntimeTimer
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import read_model
from dlbricks_core.operators.others import DOMAIN
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

TREE = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]}  # fmt: skip
LEAVES = {"treeids": [0, 0], "nodeids": [1, 2], "weights": [0.25, 0.75]}


def leaves(of, ids):
    return {f"{of}_{name}": value for name, value in LEAVES.items()} | {f"{of}_ids": ids}


def vectors(labels):
    """Support vectors of a machine with these labels, one for each."""
    count = len(labels)
    return {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0], "classlabels_ints": labels,
            "vectors_per_class": [1] * count, "support_vectors": [0.1] * (3 * count),
            "coefficients": [0.5] * (count * (count - 1)),
            "rho": [0.1] * (count * (count - 1) // 2)}  # fmt: skip


CASES = {
    "regression trees": ("TreeEnsembleRegressor", TREE | leaves("target", [0, 1]) |
                         {"n_targets": 2}, 1),
    "one target": ("TreeEnsembleRegressor", TREE | leaves("target", [0, 0]) |
                   {"n_targets": 1}, 1),
    "classifying trees": ("TreeEnsembleClassifier", TREE | leaves("class", [0, 1]) |
                          {"classlabels_int64s": [3, 5, 7]}, 2),
    "binary trees": ("TreeEnsembleClassifier", TREE | leaves("class", [0, 0]) |
                     {"classlabels_int64s": [0, 1], "post_transform": "LOGISTIC"}, 2),
    "two classes": ("SVMClassifier", vectors([0, 1]), 2),
    "a score for each pair": ("SVMClassifier", vectors([0, 1, 2, 3]), 2),
    "probabilities": ("SVMClassifier", vectors([0, 1, 2, 3]) |
                      {"prob_a": [0.1] * 6, "prob_b": [0.1] * 6}, 2),
    "no vectors": ("SVMClassifier", {"kernel_type": "LINEAR", "classlabels_ints": [0, 1, 2],
                   "coefficients": [0.1] * 9, "rho": [0.1] * 3, "kernel_params": [0.1, 0.0, 3.0]},
                   2),
    "support vectors": ("SVMRegressor", {"kernel_type": "LINEAR", "coefficients": [0.1, 0.2],
                        "support_vectors": [0.1] * 6, "rho": [0.1], "n_supports": 2,
                        "kernel_params": [0.1, 0.0, 3.0]}, 1),
    "linear": ("LinearRegressor", {"coefficients": [0.1] * 6, "targets": 2}, 1),
    "scaler": ("Scaler", {"offset": [0.1] * 3, "scale": [2.0] * 3}, 1),
    "imputer": ("Imputer", {"imputed_value_floats": [0.5] * 3,
                            "replaced_value_float": float("nan")}, 1),
    "normalizer": ("Normalizer", {"norm": "L2"}, 1),
    "joined": ("FeatureVectorizer", {"inputdimensions": [3]}, 1),
}  # fmt: skip


def network(op, attributes, outputs):
    node = helper.make_node(op, ["x"], ["y", "z"][:outputs], domain=DOMAIN, **attributes)
    return model([node], ["y", "z"][:outputs])


def extraction():
    """Elements of each row at the places of the largest ones."""
    nodes = [
        helper.make_node("ArgMax", ["x"], ["i"], axis=0, keepdims=1),
        helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain=DOMAIN),
        helper.make_node("Reshape", ["x", "all"], ["row"]),
        helper.make_node("ArrayFeatureExtractor", ["row", "i"], ["z"], domain=DOMAIN),
    ]
    return model(nodes, ["y", "z"], [numpy_helper.from_array(np.array([-1]), "all")])


def model(nodes, outputs, constants=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])],
        [helper.make_value_info(name, onnx_type()) for name in outputs],
        list(constants),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def onnx_type():
    return helper.make_tensor_type_proto(TensorProto.UNDEFINED, None)


NETWORKS = {name: network(*case) for name, case in CASES.items()} | {"extractor": extraction()}


@pytest.mark.parametrize("name", NETWORKS)
def test_results_have_the_inferred_shapes(name):
    normal = normalize(read_model(NETWORKS[name], name="m"), dims={"rows": 3})
    assert not any(layer.opaque for layer in normal.layers)
    timer = OnnxruntimeTimer(BackendSettings(1, {"optimizations": "off"}))
    loaded = timer.load(materialize(normal))
    timer.run(loaded)
    for tensor, value in timer.outputs(loaded).items():
        spec = normal.tensors[tensor]
        assert (str(np.asarray(value).dtype), np.shape(value)) == (spec.dtype, spec.sizes)
    timer.unload(loaded)


def test_a_zip_map_says_how_to_do_without_it():
    trees, attributes, _ = CASES["binary trees"]
    nodes = [
        helper.make_node(trees, ["x"], ["y", "z"], domain=DOMAIN, **attributes),
        helper.make_node("ZipMap", ["z"], ["map"], domain=DOMAIN, classlabels_int64s=[0, 1]),
    ]
    normal = normalize(read_model(model(nodes, ["y", "map"]), name="m"), dims={"rows": 3})
    reasons = {layer.op: layer.opaque for layer in normal.layers}
    assert (reasons[trees], "zipmap=False" in reasons["ZipMap"]) == ("", True)
