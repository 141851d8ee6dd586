"""Bricks on weights that the model has just read, and on inputs that it has not."""

from dataclasses import replace
from itertools import pairwise

import pytest

from dlbricks_core.backends import Traits
from dlbricks_core.backends.host import TimerHost
from dlbricks_core.bricks import BrickSet, cold_tensors, signature, weights_are_reread
from dlbricks_core.bricks.brickset import HELD_BYTES, cold_ends, fits_in_core_cache, rereads
from dlbricks_core.bricks.signature import with_cold
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

SIZE = 1_000  # a weight takes 4 MB


def steps(*weights, size=SIZE):
    """A chain of matrix products with these weights, by name."""
    names = ["x", *(f"t{i}" for i in range(len(weights)))]
    layers = tuple(
        Layer("MatMul", (before, weight), (after,))
        for before, weight, after in zip(names, weights, names[1:], strict=False)
    )
    tensors = dict.fromkeys(names, TensorSpec("float32", (1, size)))
    tensors |= dict.fromkeys(weights, TensorSpec("float32", (size, size)))
    return CanonicalModel("steps", layers, ("x",), (names[-1],), tensors, frozenset(weights))


def each(model):
    return rereads(model, [(i,) for i in range(len(model.layers))])


def test_weights_that_were_just_read_are_warm():
    assert each(steps("w", "w", "w")) == [False, True, True]
    assert each(steps("a", "b", "a", "b")) == [False, False, True, True]
    assert each(steps("a", "b", "c", "d")) == [False] * 4


def test_weights_are_cold_after_more_bytes_than_caches_hold():
    between = "bcde"  # of 4 MB each, as is the first step itself
    assert each(steps("a", *between[:2], "a"))[-1]
    assert not each(steps("a", *between, "a"))[-1]


def test_large_weights_stay_warm_while_one_more_brick_of_their_size_is_read():
    large = 3_000  # 36 MB
    assert each(steps("a", "a", size=large)) == [False, True]
    assert each(steps("a", "b", "a", size=large)) == [False, False, True]
    assert each(steps("a", "b", "c", "a", size=large)) == [False] * 4


def test_small_weights_do_not_make_a_brick_warm():
    assert each(steps("w", "w", size=100)) == [False, False]


def test_a_brick_is_warm_only_if_most_of_its_weights_were_read():
    model = steps("a", "b", "a", "c", "d")
    assert rereads(model, [(0, 1), (2, 3, 4)]) == [False, False]
    assert rereads(model, [(0, 1), (2,), (3, 4)]) == [False, True, False]


def test_warm_and_cold_are_two_bricks_if_asked_for():
    model = steps("w", "w", "w", "v")
    (cut,) = BrickSet.of([model]).models
    assert list(cut.counts.values()) == [4]
    bricks = BrickSet.of([model], rereading=True)
    assert list(bricks.models[0].counts.values()) == [2, 2]
    cold, warm = bricks.bricks.values()
    assert (weights_are_reread(cold.model), weights_are_reread(warm.model)) == (False, True)
    assert cold.signature == cut.occurrences[0].signature


def test_all_bricks_of_a_model_that_fits_into_caches_are_warm():
    fits, exceeds = steps("a", "b", size=710), steps("a", "b", size=730)
    assert fits.weight_bytes < HELD_BYTES < exceeds.weight_bytes
    for model, held in ((fits, True), (exceeds, False)):
        assert fits_in_core_cache(model) == held
        bricks = BrickSet.of([model], rereading=True)
        assert {weights_are_reread(brick.model) for brick in bricks.bricks.values()} == {held}
        assert weights_are_reread(bricks.models[0].whole.model) == held
    # What a small model keeps warm is another brick than the same of a large one.
    larger = steps("a", "b", "c", "d", "e", "f", size=710)
    both = BrickSet.of([fits, larger], rereading=True)
    assert [weights_are_reread(brick.model) for brick in both.bricks.values()] == [True, False]


def test_of_a_table_only_the_rows_that_are_looked_up_are_read():
    def model(*readers):
        tensors = {"table": TensorSpec("float32", (500_000, 16))}  # 32 MB
        tensors |= {"ids": TensorSpec("int64", (8,)), "sums": TensorSpec("float32", (500_000, 1))}
        tensors |= dict.fromkeys(("y0", "y1"), TensorSpec("float32", (8, 16)))
        outputs = tuple(layer.outputs[0] for layer in readers)
        return CanonicalModel("looks", readers, ("ids",), outputs, tensors, frozenset({"table"}))

    looks = [Layer("Gather", ("table", "ids"), (f"y{i}",), {"axis": 0}) for i in range(2)]
    assert fits_in_core_cache(model(*looks))
    whole = Layer("ReduceSum", ("table",), ("sums",), {"axes": (1,)})
    assert not fits_in_core_cache(model(*looks, whole))


def test_a_small_model_and_a_brick_of_it_have_different_signatures():
    model = steps("a", size=100)
    cut = BrickSet.of([model]).models[0]
    assert not fits_in_core_cache(
        replace(model, tensors={**model.tensors, "t0": TensorSpec("float32", None)})
    )
    assert cut.whole.signature != cut.occurrences[0].signature


class Loader:
    """A timer that notes which networks it loads and runs."""

    traits = Traits()

    def __init__(self):
        self.heard = []

    def load(self, network):
        return network.model.name

    def load_copy(self, network, loaded, *, private_cache_bytes):
        self.told = private_cache_bytes
        return f"copy of {loaded}"

    def run(self, loaded):
        self.heard.append(loaded)

    def synchronize(self, loaded):
        pass

    def warm_io(self, loaded):
        pass

    def release(self, loaded):
        pass

    def outputs(self, loaded):
        return {}


@pytest.mark.parametrize("primed", [False, True])
def test_a_warm_brick_runs_right_after_itself(primed):
    host = TimerHost()
    host._timer, host._primed, host._wake = Loader(), primed, "wake"
    host._cache_bytes, host._private_cache_bytes = 1 << 30, 7
    bricks = BrickSet.of([steps("w", "w", size=1100)], rereading=True).bricks.values()
    before = []
    for brick in bricks:
        host.load(brick.signature, brick.model, 0, "brick")
        host.timer.heard.clear()
        host.sample(brick.signature, 1, warm_io=True)
        before.append(host.timer.heard[:-2])
    cold, warm = (brick.signature for brick in bricks)
    assert before == [[f"copy of {cold}"] if primed else [], [warm]]


@pytest.mark.parametrize(("kind", "told"), [("brick", 7), ("model", 0)])
def test_a_priming_copy_is_told_how_much_of_the_caches_to_displace(kind, told):
    host = TimerHost()
    host._timer, host._primed, host._wake = Loader(), True, "wake"
    host._cache_bytes, host._private_cache_bytes = 1 << 30, 7
    host.load("net", steps("w", size=1100), 0, kind)
    assert host.timer.told == told


def decoder(blocks, size, cached):
    """Blocks that multiply, and add a row to their part of a cache, which they hand out."""
    layers, tensors = [], {"x": TensorSpec("float32", (1, size))}
    for i in range(blocks):
        before = f"h{i - 1}" if i else "x"
        layers += [
            Layer("MatMul", (before, f"w{i}"), (f"h{i}",)),
            Layer("Concat", (f"past{i}", f"h{i}"), (f"present{i}",), attributes={"axis": 0}),
        ]
        tensors |= {
            f"w{i}": TensorSpec("float32", (size, size)),
            f"h{i}": TensorSpec("float32", (1, size)),
            f"past{i}": TensorSpec("float32", (cached, size)),
            f"present{i}": TensorSpec("float32", (cached + 1, size)),
        }
    pasts, presents = ([f"{kind}{i}" for i in range(blocks)] for kind in ("past", "present"))
    weights = frozenset(f"w{i}" for i in range(blocks))
    outputs = (f"h{blocks - 1}", *presents)
    return CanonicalModel("decoder", tuple(layers), ("x", *pasts), outputs, tensors, weights)


def cold(model):
    return cold_ends(model, [(i,) for i in range(len(model.layers))])


def test_a_decoders_cache_is_cold_once_more_was_moved_than_caches_hold():
    large = decoder(4, 1_000, 1_000)  # 4 MB each: weights, what is read and what is handed out
    assert [sorted(each) for each in cold(large)[1::2]] == [
        [f"past{i}", f"present{i}"] for i in range(4)
    ]
    assert not any(cold(large)[::2])
    small = decoder(4, 250, 250)  # 0.25 MB each
    assert not any(cold(small))


def test_small_inputs_are_never_cold():
    assert not any(cold(decoder(8, 1_000, 10)))


def test_an_input_that_was_read_shortly_before_is_warm():
    shape = TensorSpec("float32", (1_000, 1_000))
    names = [f"t{i}" for i in range(6)]
    layers = [Layer("Add", (before, "x"), (after,)) for before, after in pairwise(("x", *names))]
    tensors = dict.fromkeys(("x", *names), shape)
    model = CanonicalModel("sums", tuple(layers), ("x",), ("t5",), tensors, frozenset())
    assert [sorted(each) for each in cold(model)] == [[], [], [], [], [], ["t5"]]


def test_cold_inputs_and_cold_outputs_are_parts_of_a_signature():
    model = decoder(1, 100, 100)
    marked = [with_cold(model, names) for names in ((), ("past0",), ("present0",))]
    assert len({signature(each, range(len(model.layers))) for each in marked}) == 3
    assert with_cold(marked[1], ()).annotations == {}


def test_a_model_without_cold_tensors_stays_the_same_object():
    """Another one would compute its consumers anew for each of its bricks."""
    model = decoder(1, 100, 100)
    assert with_cold(model, ()) is model


def test_a_brick_on_a_cold_cache_is_marked_and_another_one_than_on_a_warm_cache():
    bricks = BrickSet.of([decoder(4, 1_000, 1_000)], rereading=True)
    marked = {brick.signature: cold_tensors(brick.model) for brick in bricks.bricks.values()}
    (join,) = [names for names in marked.values() if names]
    assert join == {"x0", "t0"}
    plain = BrickSet.of([decoder(4, 1_000, 1_000)])
    assert not any(cold_tensors(brick.model) for brick in plain.bricks.values())
    assert len(marked.keys() & plain.bricks.keys()) == 1
    for brick in bricks.bricks.values():
        assert signature(brick.model, range(len(brick.model.layers))) == brick.signature
