"""What a LayerView says about layers, in canonical form and with parts left out."""

import numpy as np
import pytest
from dlbricks_contrib.layer_view import LayerView, halves, naming
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec


def view(op, shapes, outputs=((),), constants=(), dtypes=None, domain="", **attributes):
    """A layer with inputs ``x0``, ``x1``... of these shapes; ``None`` leaves one out.

    Args:
        op: Operator.
        shapes: Of the inputs.
        outputs: Shapes of the outputs.
        constants: Values of inputs by position.
        dtypes: Element types of inputs by position, if not float32.
        domain: Of the operator.
        **attributes: Of the layer.
    """
    values = {f"x{i}": np.asarray(value) for i, value in dict(constants).items()}
    inputs = ["" if shape is None else f"x{i}" for i, shape in enumerate(shapes)]
    results = ["" if shape is None else f"y{i}" for i, shape in enumerate(outputs)]
    dtypes = dtypes or {}
    tensors = {
        name: TensorSpec(dtypes.get(i, "float32"), tuple(shape))
        for names, given in ((inputs, shapes), (results, outputs))
        for i, (name, shape) in enumerate(zip(names, given, strict=True))
        if name
    }
    layer = Layer(op, tuple(inputs), tuple(results), attributes, domain)
    weights = frozenset(inputs[1:]) - {""}
    model = CanonicalModel(
        "m", (layer,), ("x0",), tuple(filter(None, results)), tensors, weights, values
    )
    return LayerView(model, layer)


def test_inputs_and_outputs_are_described():
    found = view("Clip", [(2, 3), None, ()], [(2, 3)], dtypes={0: "int8"})
    assert found.count == 3
    assert [found.has(i) for i in range(4)] == [True, False, True, False]
    assert [found.wants(i) for i in range(2)] == [True, False]
    assert (found.shape(), found.rank(), found.dtype()) == ((2, 3), 2, "int8")
    assert (found.out_shape(), found.out_dtype()) == ((2, 3), "int8")
    assert not found.is_weight(0)
    assert not found.is_weight(1)
    assert found.is_weight(2)
    assert found.is_scalar_weight(2)
    assert not view("MatMul", [(1, 2), (2, 3)]).is_scalar_weight(1)


def test_missing_values_are_refused_by_the_name_in_the_definition():
    found = view("Pad", [(4,), (2,)], constants={1: [1, 2]})
    assert found.integers(1) == (1, 2)
    assert found.integer(1) == 1
    assert found.constant(2) is None
    with pytest.raises(UnsupportedError, match=r"^its input 'pads' is not a constant$"):
        view("Pad", [(4,), (2,)]).known(1)
    assert view("Pad", [(4,), (2,)]).constant(1) is None


def test_an_attribute_that_is_left_out_has_its_default():
    assert view("LeakyRelu", [(4,)], alpha=0.5).attribute("alpha") == 0.5
    assert view("LeakyRelu", [(4,)]).attribute("alpha") == pytest.approx(0.01)
    assert view("Conv", [(1, 2, 3)]).attribute("strides") is None
    assert view("Conv", [(1, 2, 3)]).attribute("strides", (1,)) == (1,)
    # An operator that is younger than the canonical opset, and one of another domain.
    assert view("Swish", [(4,)]).attribute("alpha") == 1.0
    assert view("LeakyRelu", [(4,)], domain="other").attribute("alpha", 7) == 7


def test_attributes_that_were_not_read_are_listed_if_they_matter():
    found = view("LRN", [(1, 4, 2, 2)], size=3, alpha=0.25, beta=0.75, bias=2.0)
    assert found.attribute("size") == 3
    assert found.unread() == {"alpha": 0.25, "bias": 2.0}
    found.ignore("alpha")
    assert found.unread() == {"bias": 2.0}
    assert view("Reshape", [(4,)], allowzero=1).unread() == {}


@pytest.mark.parametrize(
    ("op", "attributes", "axis"),
    [("Concat", {"axis": 1}, 1), ("Softmax", {}, 2), ("Gather", {"axis": -3}, 0), ("Split", {}, 0)],
)
def test_axes_are_counted_from_the_front(op, attributes, axis):
    assert view(op, [(2, 3, 4)], **attributes).axis() == axis


def test_an_axis_may_refer_to_the_result():
    assert view("OneHot", [(2,), (), (2,)], [(2, 5)]).axis(rank=2) == 1


def test_windows_have_strides_and_pads_for_each_axis():
    found = view("Conv", [(1, 2, 8, 8)], strides=(2, 1), pads=(0, 1, 2, 3))
    assert found.spatial_rank == 2
    assert found.per_axis("strides") == (2, 1)
    assert found.per_axis("dilations") == (1, 1)
    assert found.pads() == ((0, 1), (2, 3))
    assert view("MaxPool", [(1, 2, 8)]).pads() == ((0,), (0,))
    assert view("Col2Im", [(1, 9, 4)]).pads(2) == ((0, 0), (0, 0))
    assert view("Col2Im", [(1, 9, 4)]).per_axis("strides", 2) == (1, 1)
    assert halves((1, 2, 3, 4)) == ((1, 2), (3, 4))


def test_pads_are_given_for_all_axes_or_for_some():
    every = view("Pad", [(2, 3), (4,)], constants={1: [1, 2, 3, -1]})
    assert every.all_pads() == ((1, 2), (3, -1))
    some = view("Pad", [(2, 3, 4), (4,), None, (2,)], constants={1: [1, 2, 3, 4], 3: [-1, 0]})
    assert some.all_pads() == ((2, 0, 1), (4, 0, 3))


def test_reduced_axes_follow_from_constants_and_attributes():
    assert view("ReduceSum", [(2, 3, 4), (2,)], constants={1: [2, 0]}).reduced_axes() == (0, 2)
    assert view("ReduceSum", [(2, 3)]).reduced_axes() == (0, 1)
    assert view("ReduceSum", [(2, 3)], noop_with_empty_axes=1).reduced_axes() == ()
    assert view("ReduceSum", [()]).reduced_axes() == ()


def test_a_permutation_that_is_left_out_reverses_the_axes():
    assert view("Transpose", [(2, 3, 4)], perm=(1, 0, 2)).permutation() == (1, 0, 2)
    assert view("Transpose", [(2, 3, 4)]).permutation() == (2, 1, 0)


bounds = st.integers(-12, 12)


@given(size=st.integers(1, 6), start=bounds, end=bounds, step=st.sampled_from((-3, -1, 1, 2)))
def test_a_slice_has_the_range_of_the_definition(size, start, end, step):
    # Both count from the back if negative, and are clamped by the direction of the step.
    lowest, highest = (0, size) if step > 0 else (-1, size - 1)
    first = np.clip(start + size * (start < 0), 0, highest)
    last = np.clip(end + size * (end < 0), lowest, highest)
    constants = {1: [start], 2: [end], 3: [0], 4: [step]}
    found = view("Slice", [(size,)] + [(1,)] * 4, constants=constants).slices()
    assert list(found) == [0]
    assert list(found[0]) == list(range(first, last, step))


def test_a_slice_may_leave_axes_and_steps_out():
    found = view("Slice", [(4, 5), (2,), (2,)], constants={1: [1, -2], 2: [3, 9]}).slices()
    assert found == {0: range(1, 3), 1: range(3, 5)}


def test_parts_of_a_split_that_nobody_reads_have_sizes():
    found = view("Split", [(6, 2), (3,)], [(1, 2), None, (3, 2)], constants={1: [1, 2, 3]})
    assert found.split_sizes() == (1, 2, 3)
    assert view("Split", [(6, 2)], [(2, 2), (4, 2)]).split_sizes() == (2, 4)


def test_activations_and_lengths_of_recurrent_layers_are_known():
    shapes = [(5, 2, 3), (1, 16, 3), (1, 16, 4), None, (2,)]
    assert view("LSTM", shapes[:3]).activations() == ("sigmoid", "tanh", "tanh")
    both = view("RNN", shapes[:3], direction="bidirectional", activations=("Relu", "Tanh"))
    assert both.activations() == ("relu", "tanh")
    assert view("RNN", shapes[:3]).activations() == ("tanh",)
    assert both.unread() == {}
    assert view("GRU", shapes[:3]).has_full_lengths()
    assert not view("GRU", shapes).has_full_lengths()
    assert view("GRU", shapes, constants={4: [5, 5]}).has_full_lengths()
    assert not view("GRU", shapes, constants={4: [5, 4]}).has_full_lengths()
    assert view("GRU", shapes, constants={4: [2, 2]}, layout=1).has_full_lengths()


def test_a_refusal_names_the_operator():
    with pytest.raises(UnsupportedError) as caught, naming(Layer("Odd", (), (), domain="some")):
        raise UnsupportedError("no", hint="Wait.")
    assert (caught.value.message, caught.value.hint) == ("some.Odd: no", "Wait.")
    with pytest.raises(KeyError), naming(Layer("Odd", (), ())):
        raise KeyError
