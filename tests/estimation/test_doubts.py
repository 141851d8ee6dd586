"""Notes on short types in which nothing was measured, and on operators of one framework."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from dlbricks_prediction.doubts import far_types
from dlbricks_prediction.features import Features
from dlbricks_testing import cases
from dlbricks_testing.operators import DEFINED, UNDEFINED

from dlbricks_core.backends import Traits
from dlbricks_core.bricks import Brick
from dlbricks_core.estimation.extrapolation import foreign_operators
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures import RESAMPLES, Predicted
from dlbricks_core.passes.convert import convert
from dlbricks_core.report import notes as words

SETUP = Setup("backend", "1.0", "{}", 1, "interleaved", "0.1.0")
CONVERTS, NATIVE = System(isa=("avx2",)), System(isa=("avx2", "avx512_bf16"))


@pytest.fixture(scope="module")
def model():
    text = "(float[4,8] x, float[8,8] w1) => (y) { a = MatMul(x, w1) y = Relu(a) }"
    return convert(cases.build(text).model, "bfloat16")


def notes(model, system, *measured):
    """Notes on a prediction, with what was measured on some systems."""
    atlas = [
        SimpleNamespace(system=s, setup=SETUP, features=each, kinds=frozenset(each.kinds))
        for s, each in measured
    ]
    return list(map(words.text, far_types([Brick("brick", model)], SETUP, system, atlas)))


def test_a_type_counts_as_measured_where_it_is_handled_in_the_same_way(model):
    features = Features.of(model)
    assert notes(model, CONVERTS, (CONVERTS, features)) == []
    (note,) = notes(model, NATIVE, (CONVERTS, features))
    assert note.startswith("nothing was measured in bfloat16 with backend on a processor like this")


def test_layers_that_were_not_measured_in_the_type_are_named(model):
    features = Features.of(model)
    (note,) = notes(model, CONVERTS, (CONVERTS, features.part([1])))
    assert "(product)" in note


@pytest.mark.parametrize(
    ("domains", "text", "named"),
    [
        (frozenset(), UNDEFINED["GatherBlockQuantized"], True),
        (frozenset(), DEFINED["MatMulNBits"], False),
        (frozenset({"com.microsoft"}), UNDEFINED["GatherBlockQuantized"], False),
        (None, UNDEFINED["GatherBlockQuantized"], False),
    ],
)
def test_operators_of_a_domain_that_the_backend_does_not_run_are_named(domains, text, named):
    brick = SimpleNamespace(
        brick=SimpleNamespace(model=cases.build(text).model),
        latency=Predicted(1.0, np.ones(RESAMPLES), 0.0),
    )
    backend = SimpleNamespace(traits=Traits(domains=domains))
    request = SimpleNamespace(setup=replace(SETUP, backend="backend"), backend=backend)
    result = SimpleNamespace(bricks=[brick], request=request)
    found = list(map(words.text, foreign_operators(result)))
    expected = (
        "backend may not support com.microsoft.GatherBlockQuantized, which ONNX does not define: "
        "a measurement shows it"
    )
    assert found == ([expected] if named else [])
