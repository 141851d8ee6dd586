"""How models are cut for a composer."""

from dataclasses import replace
from itertools import pairwise

import pytest

from dlbricks_core.backends import Traits
from dlbricks_core.compose import Plan, Sequential
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import PluginError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.measure.cutting import cut_models, run_targets
from dlbricks_core.measure.rewrites import Rewrites
from dlbricks_core.progress import Observer


@pytest.mark.parametrize(("composer", "bricks"), [("segmented", 2), ("sequential", 1)])
def test_only_our_own_composers_tell_warm_weights_from_cold(asked, composer, bricks):
    names = ["x", "t0", "t1", "t2"]
    layers = tuple(Layer("MatMul", (before, "w"), (after,)) for before, after in pairwise(names))
    tensors = dict.fromkeys(names, TensorSpec("float32", (1, 2000)))
    tensors["w"] = TensorSpec("float32", (2000, 2000))
    model = CanonicalModel("steps", layers, ("x",), ("t2",), tensors, frozenset("w"))
    chosen = CutOptions.chosen(None, None, composer)
    found = cut_models([model], chosen, asked, Observer(), rewrites=Rewrites())
    assert len(found.brickset.bricks) == bricks


@pytest.mark.parametrize(
    ("plan", "told"),
    [(None, "returned None instead of a plan"), (Plan({}, {}), "has no recipe for 1 bricks")],
)
def test_a_plan_without_what_is_needed_is_blamed_on_the_composer(
    asked, builder, monkeypatch, plan, told
):
    monkeypatch.setattr(Sequential, "plan", lambda *_: plan)
    b = builder()
    model = b.model(b.relu(b.input))
    with pytest.raises(PluginError, match=f"composer 'sequential': .*{told}"):
        cut_models([model], CutOptions.chosen(1, None, None), asked, Observer())


@pytest.mark.parametrize("blocks_only", [True, False])
def test_a_backend_of_blocks_runs_its_own_graph_as_the_whole(asked, builder, faulty, blocks_only):
    class Blocks(faulty.FaultyBackend):
        traits = Traits(rewrites=True, blocks_only=blocks_only)

    b = builder()
    model = b.model(b.relu(b.input))
    graph = replace(model, source="written by the backend")
    request, rewrites = replace(asked, backend=Blocks()), Rewrites({0: graph})
    cutting = cut_models([model], CutOptions.chosen(None, None, None), request, Observer(),
                         rewrites=rewrites)  # fmt: skip
    (whole, *_) = run_targets(cutting, end_to_end=True, backend=None)
    assert whole.kind == "model"
    assert whole.brick.signature == cutting.brickset.models[0].whole.signature
    assert (whole.brick.model is graph) is blocks_only


def test_a_part_of_a_cutting_has_the_bricks_of_its_models(asked, builder):
    def model(op):
        b = builder()
        return b.model(b.add(op, b.input))

    models = [model("Relu"), model("Tanh"), model("Sigmoid")]
    cutting = cut_models(models, CutOptions.chosen(1, None, None), asked, Observer())
    part = cutting.only([2, 0])
    assert [cut.model for cut in part.brickset.models] == [models[2], models[0]]
    assert {each.operators for each in part.brickset.bricks.values()} == {("Sigmoid",), ("Relu",)}
    assert len(cutting.brickset.bricks) == 3
