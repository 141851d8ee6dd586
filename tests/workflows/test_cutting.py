"""How models are cut for a composer."""

from dataclasses import replace
from itertools import pairwise

import pytest

from dlbricks_core.backends import BackendSettings, Traits
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.workflows import CutOptions, Observer, cutting
from dlbricks_core.workflows.cutting import Rewrites, cut_models


@pytest.mark.parametrize(("composer", "bricks"), [("segmented", 2), ("sequential", 1)])
def test_only_our_own_composers_tell_warm_weights_from_cold(asked, composer, bricks):
    names = ["x", "t0", "t1", "t2"]
    layers = tuple(Layer("MatMul", (before, "w"), (after,)) for before, after in pairwise(names))
    tensors = dict.fromkeys(names, TensorSpec("float32", (1, 1000)))
    tensors["w"] = TensorSpec("float32", (1000, 1000))
    model = CanonicalModel("steps", layers, ("x",), ("t2",), tensors, frozenset("w"))
    chosen = CutOptions.chosen(None, None, composer)
    found = cut_models([model], chosen, asked, Observer(), rewrites=Rewrites())
    assert len(found.brickset.bricks) == bricks


@pytest.mark.parametrize(
    ("alone", "threads", "expected"), [(False, 4, 4), (True, 4, 1), (True, 8, 1), (True, 1, 4)]
)
def test_no_more_are_asked_at_once_than_there_are_cores_for(
    asked, faulty, monkeypatch, alone, threads, expected
):
    monkeypatch.setattr(cutting, "physical_cores_available", lambda: 4)
    backend = faulty.FaultyBackend()
    backend.traits = Traits(rewrite_uses_all_threads=alone)
    where = replace(asked, backend=backend, settings=BackendSettings(threads))
    assert cutting._at_once(where) == expected
