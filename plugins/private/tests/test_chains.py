from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
from dlbricks_private.chains import alternatives, log10_candidates, log10_of_choices
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.bricks import Brick
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec


def brick(name, begin, end):
    """A brick between shapes that are given by their widths; several widths are several tensors."""
    begins, ends = ((each,) if isinstance(each, int) else each for each in (begin, end))
    inputs = tuple(f"x{i}" for i in range(len(begins)))
    outputs = tuple(f"t{i}" for i in range(len(ends)))
    tensors = {n: TensorSpec("float32", (1, w)) for n, w in zip(inputs, begins, strict=True)}
    tensors |= {n: TensorSpec("float32", (1, w)) for n, w in zip(outputs, ends, strict=True)}
    return Brick(
        name, CanonicalModel(name, (Layer("Op", inputs, outputs),), inputs, outputs, tensors)
    )


def suite(*ends):
    return {f"b{i}": brick(f"b{i}", *each) for i, each in enumerate(ends)}


def test_a_model_without_decoys_is_the_only_candidate():
    assert log10_candidates(["b0", "b1", "b2"], suite((1, 2), (2, 3), (3, 4))) == 0


def test_each_place_with_two_bricks_doubles_the_candidates():
    bricks = suite((1, 2), (2, 3), (3, 4), (1, 2), (2, 3), (3, 4))
    chain = ["b0", "b1", "b2"]
    assert log10_candidates(chain, bricks) == pytest.approx(math.log10(8))
    assert log10_of_choices(chain, bricks) == pytest.approx(math.log10(8))
    assert alternatives("b1", bricks) == 1


def test_other_ways_between_the_ends_count_as_well():
    bricks = suite((1, 2), (2, 3), (1, 9), (9, 3))
    assert log10_candidates(["b0", "b1"], bricks) == pytest.approx(math.log10(2))
    assert log10_of_choices(["b0", "b1"], bricks) == 0


def test_what_leads_nowhere_does_not_count():
    assert log10_candidates(["b0", "b1"], suite((1, 2), (2, 3), (1, 9), (8, 3))) == 0


def test_a_brick_of_several_inputs_stays_where_it_is():
    bricks = {**suite((1, 2), (3, 4), (1, 2), (3, 4)), "m": brick("m", (2, 2), 3)}
    bricks["n"] = brick("n", (2, 2), 3)
    assert log10_candidates(["b0", "m", "b1"], bricks) == pytest.approx(math.log10(4))


def test_more_candidates_than_a_float_holds_are_counted():
    bricks = suite(*[(1, 1)] * 10)
    assert log10_candidates(["b0"] * 400, bricks) == pytest.approx(400)


def test_a_brick_that_the_suite_lacks_is_an_error():
    with pytest.raises(ValueError, match="not in the suite"):
        log10_candidates(["absent"], suite((1, 2)))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=5),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_the_count_is_what_trying_all_chains_gives(ends, length, chance):
    bricks = suite(*ends)
    begins = {name: ends[int(name[1:])] for name in bricks}

    def joined(chain):
        return all(begins[a][1] == begins[b][0] for a, b in pairwise(chain))

    chains = [chain for chain in product(bricks, repeat=length) if joined(chain)]
    if not chains:
        return
    true = chance.choice(chains)
    same = [
        chain
        for chain in chains
        if begins[chain[0]][0] == begins[true[0]][0] and begins[chain[-1]][1] == begins[true[-1]][1]
    ]
    assert log10_candidates(true, bricks) == pytest.approx(math.log10(len(same)))
