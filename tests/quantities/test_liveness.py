"""Feature maps that are there while a layer runs."""

import pytest
from dlbricks_quantities.liveness import (
    apart_bytes,
    handed_on_bytes,
    live_bytes,
    live_bytes_by_layer,
)
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.bricks import BrickSet
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec


def chain(sizes, reads=None):
    """Layers that make tensors of these bytes, each from the one before unless ``reads`` says."""
    names = ["x", *(f"t{i}" for i in range(len(sizes) - 1))]
    layers = [
        Layer("Relu", tuple({names[i], *(names[n] for n in (reads or {}).get(i, ()))}), (made,))
        for i, made in enumerate(names[1:])
    ]
    specs = {n: TensorSpec("int8", (size,)) for n, size in zip(names, sizes, strict=True)}
    return CanonicalModel("m", tuple(layers), ("x",), (names[-1],), specs)


def test_a_chain_holds_two_neighbours_and_its_input():
    assert live_bytes_by_layer(chain([1, 2, 4, 8, 16])) == (3, 7, 13, 25)


def test_a_map_that_is_read_late_is_there_until_then():
    # The last layer also reads the first result, of 2 bytes.
    assert live_bytes_by_layer(chain([1, 2, 4, 8, 16], {3: [1]})) == (3, 7, 15, 27)


def test_between_two_layers_there_are_results_that_are_still_to_be_read():
    assert handed_on_bytes(chain([100, 2, 4, 8, 5])) == 8
    assert handed_on_bytes(chain([100, 2, 4, 8, 5], {3: [1]})) == 8 + 2


@pytest.mark.parametrize(
    ("sizes", "apart"),
    [
        ([24, 49, 49, 49], 49),  # the last takes the place of the first
        ([24, 49, 49, 12], 12),
        ([24, 49, 12, 49], 49),
        ([24, 49, 49], 0),  # both are there while the second is made
        ([24, 49], 0),
    ],
)
def test_a_result_in_memory_of_its_own_takes_what_others_would_have_left_to_it(sizes, apart):
    assert apart_bytes(chain(sizes)) == apart


@given(st.lists(st.integers(1, 99), min_size=2, max_size=9))
def test_results_apart_take_no_more_than_they_are_large(sizes):
    assert 0 <= apart_bytes(chain(sizes)) <= sizes[-1]


@given(st.lists(st.integers(1, 99), min_size=2, max_size=9), st.integers(1, 4))
def test_a_brick_alone_holds_no_more_than_within_its_model_and_its_input(sizes, granularity):
    cut = BrickSet.of([chain(sizes)], granularity).models[0]
    found = live_bytes(cut)
    assert found.keys() == cut.counts.keys()
    assert max(each.within for each in found.values()) == max(live_bytes_by_layer(cut.graph))
    for each in found.values():
        # A brick's input belongs to its caller: nobody frees it in the middle.
        assert each.alone <= each.within + max(sizes)


def test_a_brick_that_occurs_twice_counts_where_more_is_there(builder):
    b = builder()
    late = b.relu(b.input)
    b.sum(b.relu(b.relu(late)), late)
    cut = BrickSet.of([b.model()], 1).models[0]
    (relu,) = (s for s, count in cut.counts.items() if count == 3)
    size = cut.graph.tensors[late].nbytes
    assert live_bytes(cut)[relu].alone == 2 * size
    assert live_bytes(cut)[relu].within == 4 * size


def test_a_whole_model_as_one_brick_holds_what_it_holds_alone(residual):
    (found,) = live_bytes(BrickSet.of([residual()], 99, "segments").models[0]).values()
    assert found.alone == pytest.approx(found.within)
