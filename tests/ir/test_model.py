"""Properties of models."""

from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

SIZES = {"x": 1, "a": 2, "b": 4, "c": 8, "y": 16, "z": 32, "w": 1024}


def model(*layers, outputs):
    tensors = {name: TensorSpec("int8", (size,)) for name, size in SIZES.items()}
    return CanonicalModel("m", layers, ("x",), outputs, tensors, frozenset("w"))


def test_live_bytes_of_a_chain_are_those_of_two_neighbours_and_the_edges():
    chain = model(
        Layer("Conv", ("x", "w"), ("a",)),
        Layer("Relu", ("a",), ("b",)),
        Layer("Relu", ("b",), ("c",)),
        Layer("Relu", ("c",), ("y",)),
        outputs=("y",),
    )
    assert chain.live_bytes == 1 + 16 + 4 + 8


def test_tensors_that_are_read_late_stay_alive():
    skip = model(
        Layer("Relu", ("x",), ("a",)),
        Layer("Relu", ("a",), ("b",)),
        Layer("Relu", ("b",), ("c",)),
        Layer("Add", ("c", "a"), ("y",)),
        outputs=("y",),
    )
    assert skip.live_bytes == 1 + 16 + 2 + 4 + 8


def test_outputs_stay_alive_and_unread_tensors_do_not():
    unread = model(
        Layer("Split", ("x",), ("a", "z", "")),
        Layer("Relu", ("a",), ("b",)),
        Layer("Relu", ("b",), ("y",)),
        outputs=("b", "y"),
    )
    assert unread.live_bytes == 1 + 4 + 16 + 2 + 32


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), min_size=1, max_size=8))
def test_live_bytes_are_the_largest_sum_at_any_moment(layers):
    names = ["x", *(f"t{i}" for i in range(len(layers)))]
    reads = [names[number % (i + 1)] for i, (number, _) in enumerate(layers)]
    sizes = dict(zip(names, [4, *(size for _, size in layers)], strict=True))
    made = CanonicalModel(
        "m",
        tuple(Layer("Relu", (r,), (n,)) for r, n in zip(reads, names[1:], strict=True)),
        ("x",),
        (names[-1],),
        {name: TensorSpec("int8", (size,)) for name, size in sizes.items()},
    )

    def lives(i, name, moment):
        last = max((m for m, read in enumerate(reads) if read == name), default=i - 1)
        return name in ("x", names[-1]) or i - 1 <= moment <= last

    assert made.live_bytes == max(
        sum(sizes[name] for i, name in enumerate(names) if lives(i, name, moment))
        for moment in range(len(layers))
    )
