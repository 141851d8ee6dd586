"""Operations of classical machine learning: they follow from attributes, not from tensors."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_prediction.features import Features

from dlbricks_core.analysis import layer_flops
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.operators.others import DOMAIN

ROWS, FEATURES = 100, 8


def model(op, **attributes):
    """A model of one layer that reads rows of features."""
    layer = Layer(op, ("x",), ("y",), attributes=attributes, domain=DOMAIN)
    tensors = {"x": TensorSpec("float32", (ROWS, FEATURES)), "y": TensorSpec("float32", (ROWS, 1))}
    return CanonicalModel("m", (layer,), ("x",), ("y",), tensors)


def flops(op, **attributes):
    found = model(op, **attributes)
    return layer_flops(found, found.layers[0])


def trees(count, leaves):
    """Attributes of trees with so many leaves each."""
    nodes = 2 * leaves - 1
    modes = ("BRANCH_LEQ",) * (leaves - 1) + ("LEAF",) * leaves
    return {
        "nodes_treeids": tuple(tree for tree in range(count) for _ in range(nodes)),
        "nodes_modes": modes * count,
    }


@pytest.mark.parametrize("op", ["TreeEnsembleRegressor", "TreeEnsembleClassifier"])
def test_rows_walk_down_all_trees(op):
    assert flops(op, **trees(10, 16)) == ROWS * 10 * (1 + 4)


def test_trees_in_joint_tables_are_counted_alike():
    found = flops("TreeEnsemble", tree_roots=(0,) * 10, leaf_targetids=(0,) * 160)
    assert found == flops("TreeEnsembleRegressor", **trees(10, 16))


def test_rows_meet_all_support_vectors():
    vectors = {"support_vectors": (0.5,) * 50 * FEATURES, "coefficients": (1.0,) * 50}
    assert flops("SVMRegressor", **vectors) == ROWS * 2 * 50 * (FEATURES + 2)
    assert flops("SVMRegressor", coefficients=(1.0,) * FEATURES) == ROWS * 2 * FEATURES


@pytest.mark.parametrize("op", ["LinearClassifier", "LinearRegressor"])
def test_rows_are_multiplied_by_all_coefficients(op):
    assert flops(op, coefficients=(1.0,) * FEATURES * 5) == ROWS * 2 * FEATURES * 5


def test_attributes_that_are_no_trees_have_no_count():
    assert flops("TreeEnsembleRegressor") is None


def test_predictors_see_the_trees():
    few, many = (
        Features.of(model("TreeEnsembleRegressor", **trees(count, 16))) for count in (10, 1000)
    )
    assert few.kinds == many.kinds == ("trees",)
    np.testing.assert_allclose(many.numbers[0, 0] - few.numbers[0, 0], np.log2(100), atol=0.01)
