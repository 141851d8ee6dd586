"""Which contributions tell about layers in short types."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from dlbricks_prediction import Contribution, Provenance
from dlbricks_prediction.baseline import Processor
from dlbricks_prediction.features import NAMES, Features
from dlbricks_prediction.parts import SharedLayers, parts_of

CONVERTS, NATIVE = ("avx2",), ("avx2", "avx512_bf16", "avx512_vnni")
FLOATS = "convolution:dense", "elementwise:relu"
SHORT = (*FLOATS, "convolution:dense~bfloat16")


@pytest.fixture
def base(system, setup):
    """A contribution of a system with some instruction sets, and layers of some kinds."""

    def contribution(isa, kinds):
        size = len(kinds)
        return Contribution(
            system(isa=isa), setup(), Provenance("0.1.0", "", "", (), "synthetic"),
            Features(tuple(kinds), np.zeros((size, len(NAMES)))),
            scipy.sparse.csr_array(np.eye(size)), np.zeros(size), np.zeros(size), np.zeros(size),
            ("",) * size, ("",) * size,
        )  # fmt: skip

    return contribution


@pytest.fixture
def asked(system):
    """Parts of two layers, the second of which is in a short type."""

    def parts(isa, bases, kind="convolution:dense~bfloat16", here=False):
        layers = Features(("elementwise:relu", kind), np.zeros((2, len(NAMES))))
        return parts_of(layers, Processor.of(system(isa=isa), 1), bases, here=here)

    return parts


def test_all_tell_about_usual_types(base, asked):
    bases = [base(CONVERTS, FLOATS), base(NATIVE, FLOATS)]
    assert asked(CONVERTS, bases, "convolution:dense") == [SharedLayers([0, 1], (0, 1), False)]
    assert asked(CONVERTS, bases, "convolution:dense", here=True) == [
        SharedLayers([0, 1], (0,), False)
    ]


def test_samples_of_a_type_count_where_it_is_handled_in_the_same_way(base, asked):
    bases = [base(NATIVE, SHORT), base(CONVERTS, SHORT), base(CONVERTS, FLOATS)]
    assert asked(CONVERTS, bases) == [
        SharedLayers([0], (0, 1, 2), False),
        SharedLayers([1], (1,), False),
    ]
    assert asked(NATIVE, bases) == [
        SharedLayers([0], (0, 1, 2), False),
        SharedLayers([1], (0,), False),
    ]


def test_samples_from_elsewhere_count_where_the_own_contribution_has_none(base, asked):
    bases = [base(CONVERTS, FLOATS), base(CONVERTS, SHORT)]
    assert asked(CONVERTS, bases, here=True) == [
        SharedLayers([0], (0,), False),
        SharedLayers([1], (1,), False),
    ]
    own = [base(CONVERTS, SHORT), base(CONVERTS, SHORT)]
    assert asked(CONVERTS, own, here=True) == [SharedLayers([0, 1], (0,), False)]


def test_samples_of_processors_that_handle_a_type_otherwise_count_with_doubt(base, asked):
    bases = [base(NATIVE, FLOATS), base(NATIVE, SHORT)]
    assert asked(CONVERTS, bases) == [
        SharedLayers([0], (0, 1), False),
        SharedLayers([1], (1,), True),
    ]


def test_a_type_without_samples_is_doubted_where_no_other_converts_it(base, asked):
    bases = [base(NATIVE, FLOATS), base(NATIVE, FLOATS)]
    assert asked(CONVERTS, bases) == [
        SharedLayers([0], (0, 1), False),
        SharedLayers([1], (0, 1), True),
    ]


def test_codes_have_samples_of_their_own_where_a_processor_multiplies_them(base, asked):
    kind = "product:weights~uint8"
    bases = [base(CONVERTS, (*FLOATS, kind)), base(NATIVE, (*FLOATS, kind)), base(NATIVE, FLOATS)]
    assert asked(NATIVE, bases, kind)[1] == SharedLayers([1], (1,), False)
    assert asked(CONVERTS, bases, kind)[1] == SharedLayers([1], (0,), False)
