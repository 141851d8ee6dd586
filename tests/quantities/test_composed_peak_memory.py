"""How peak memory composes from what is observed of bricks."""

import itertools
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from dlbricks_quantities import peak_memory
from dlbricks_quantities.peak_memory import PeakMemory
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.backends import Traits
from dlbricks_core.bricks import CutModel
from dlbricks_core.bricks.brickset import Occurrence
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

MEBIBYTE = TensorSpec("float32", (2**18,))
SMALL = st.floats(0, 1e3)


def relus(number, largest=8):
    """A chain of layers on feature maps of one MiB, with a brick ``a`` for each.

    Loading frees a block of the largest weight, in MiB.
    """
    names = ["x", *(f"t{i}" for i in range(number))]
    layers = tuple(Layer("Relu", (r,), (m,)) for r, m in itertools.pairwise(names))
    tensors = {**dict.fromkeys(names, MEBIBYTE), "freed": TensorSpec("uint8", (largest * 2**20,))}
    model = CanonicalModel("m", layers, ("x",), (names[-1],), tensors, frozenset(["freed"]))
    return CutModel(model, tuple(Occurrence("a", (i,)) for i in range(number)), model)


def peaks_of(cut, **parts):
    """Peak memory of a model, from parts by brick; those that are not given are 0."""
    names = [part.name.replace("-", "_") for part in PeakMemory.parts]
    assert parts.keys() <= set(names)
    values = [{}, *(parts.get(name, {}) for name in names)]
    arrays = [{s: np.array([each.get(s, 0.0)]) for s in cut.counts} for each in values]
    (found,) = np.unique(PeakMemory().total(cut, arrays))
    return found


def peak(cut, **parts):
    """Peak memory of a model of one kind of brick."""
    return peaks_of(cut, **{name: {"a": value} for name, value in parts.items()})


@given(SMALL, SMALL, SMALL, SMALL, SMALL, st.floats(2, 1e3))
def test_peak_memory_of_a_model_of_one_brick_is_its_own(kept, loading, loaded, left, code, run):
    found = peak(relus(1), kept_memory=kept, loading_memory=loading, loaded_memory=loaded,
                 run_memory=run, left_memory=left, code_memory=code)  # fmt: skip
    # Its input is a MiB. A run holds that and the result already, in what it takes.
    assert found == pytest.approx(code + max(loading + 1, left + max(loaded + 1, kept + run)))


@given(SMALL, st.floats(2, 1e3), st.integers(3, 6))
def test_peak_memory_while_running_adds_up_what_is_kept_and_one_run(kept, run, number):
    # In the middle of the model there is also the model's input.
    assert peak(relus(number), kept_memory=kept, run_memory=run) == pytest.approx(
        number * kept + run + 1
    )


@pytest.mark.parametrize(("largest", "beneath"), [(1, 6.0), (0, 15.0), (40, 6.0)])
def test_a_run_finds_room_in_what_loading_freed_only_where_blocks_are_large(largest, beneath):
    # Between two layers of the chain there is one result of a MiB, beside the model's input.
    found = peak(relus(3, largest), kept_memory=2.0, loaded_memory=5.0, run_memory=20.0)
    assert found == pytest.approx(beneath + 20 + 1)


def test_feature_maps_above_what_glibc_keeps_never_find_room():
    cut = relus(1, largest=40)
    tensors = {**cut.graph.tensors, "t0": TensorSpec("uint8", (33 * 2**20,))}
    large = replace(cut, graph=replace(cut.graph, tensors=tensors))
    assert peak(large, kept_memory=2.0, loaded_memory=5.0, run_memory=40.0) == pytest.approx(45)


def test_a_brick_runs_beside_the_feature_maps_of_its_own_moment():
    cut = relus(3)
    large = replace(cut, occurrences=tuple(Occurrence(s, (i,)) for i, s in enumerate("abb")))
    # The first brick holds its two feature maps. Beside the second there is the model's input.
    assert peaks_of(large, run_memory={"a": 12.0, "b": 2.0}) == pytest.approx(12)
    assert peaks_of(large, run_memory={"a": 12.0, "b": 11.5}) == pytest.approx(12.5)


def test_what_first_runs_leave_counts_once_for_each_brick_of_a_kind():
    two = replace(relus(4), occurrences=tuple(Occurrence(s, (i,)) for i, s in enumerate("abab")))
    values = {"left_memory": {"a": 3.0, "b": 4.0}}
    assert peaks_of(two, **values) == pytest.approx(peaks_of(two) + 7)
    part = next(each for each in PeakMemory.parts if each.name == "left-memory")
    arrays = [{s: np.full(1, v) for s, v in values["left_memory"].items()}] * 9
    assert PeakMemory().part_total(part, two, arrays) == 7


def sharing_a_weight():
    """A chain of three layers that all read one weight of a MiB; and one without."""
    cut = relus(3)
    layers = tuple(replace(each, inputs=(*each.inputs, "w")) for each in cut.graph.layers)
    tensors = {**cut.graph.tensors, "w": MEBIBYTE}
    graph = replace(cut.graph, layers=layers, tensors=tensors, weights=cut.graph.weights | {"w"})
    return CutModel(graph, cut.occurrences, graph), cut


@pytest.mark.parametrize(("held", "own"), [(1, 0.0), (3, 2.0), (30, 8.0)])
def test_weights_that_a_framework_packs_are_a_bricks_own(monkeypatch, held, own):
    graph = replace(sharing_a_weight()[0].graph, weights=frozenset("w"))
    more = peak_memory._copies(graph) - 1
    several = peak_memory._Peaks(0, 0, held=7.0 * more, running=10.0 * more, left=1.0 * more,
                                 code=0)  # fmt: skip
    alone = peak_memory._Peaks(0, 0, 0, 0, 0, 0)
    monkeypatch.setattr(peak_memory._Peaks, "of", lambda *_, **__: several)
    other = SimpleNamespace(save=lambda *_: None, apply=lambda *_: (alone, alone))

    def elsewhere(**_):
        return nullcontext(other)

    values = PeakMemory().observe(
        SimpleNamespace(traits=Traits(weights_held=held), elsewhere=elsewhere), graph, 0
    )
    # A run of a copy takes 10 MiB, of which its result is 1; 7 and then 8 stay, its weights are 1.
    assert (values[1], values[2]) == (8.0, own)


@pytest.mark.parametrize(("apart", "run"), [(False, 12.0), (True, 11.0)])
def test_a_bricks_result_takes_no_memory_of_its_own_in_a_model(monkeypatch, apart, run):
    peaks = peak_memory._Peaks(0, 0, held=1.0, running=12.0, left=0, code=0)
    monkeypatch.setattr(peak_memory._Peaks, "of", lambda *_, **__: peaks)
    other = SimpleNamespace(save=lambda *_: None, apply=lambda *_: (peaks, peaks))
    timer = SimpleNamespace(traits=Traits(results_apart=apart),
                            elsewhere=lambda **_: nullcontext(other))  # fmt: skip
    # The third feature map of a MiB finds room in the first. The input counts, too.
    observed = dict(zip(PeakMemory.parts, PeakMemory().observe(timer, relus(3).graph, 0)[1:],
                        strict=True))  # fmt: skip
    assert {part.name: value for part, value in observed.items()}["run-memory"] == run


@pytest.mark.parametrize("trimmed", [True, False])
def test_heaps_of_all_threads_end_where_a_brick_takes_memory_once_its_run_begins(
    monkeypatch, trimmed
):
    seen = []
    monkeypatch.setattr(peak_memory, "return_ends", lambda: seen.append("returned"))
    saved = SimpleNamespace(feed=dict, parse=dict, prepare=lambda *_: seen.append("loaded"))
    timer = SimpleNamespace(run=lambda _: seen.append("run"), synchronize=lambda _: None,
                            forget=lambda _: None, unload=lambda _: None)  # fmt: skip
    peak_memory._Peaks.of(timer, saved, trimmed=trimmed)
    assert seen[:2] == ["loaded", "returned" if trimmed else "run"]


def test_weights_that_bricks_share_are_there_once():
    shared, apart = sharing_a_weight()
    assert peak(shared, kept_memory=5.0) == pytest.approx(peak(apart, kept_memory=5.0) - 2)


def test_weights_that_each_brick_has_packed_for_itself_are_there_as_often_as_read():
    shared, apart = sharing_a_weight()
    packed = {"kept_memory": 5.0, "own_memory": 5.0}
    assert peak(shared, **packed) == pytest.approx(peak(apart, **packed))
    # While it loads, the file has them once.
    assert peak(shared, loading_memory=50.0, **packed) == pytest.approx(148 + 1)


@given(st.floats(20, 1e3))
def test_blocks_too_large_for_freed_memory_come_on_top_one_brick_at_a_time(passing):
    assert peak(relus(3), loading_memory=20.0, passing_memory=passing) == 61 + passing


@given(SMALL, st.integers(1, 6))
def test_peak_memory_while_loading_adds_up(loading, number):
    assert peak(relus(number), loading_memory=loading) == pytest.approx(
        max(number * loading + 1, peak(relus(number)))
    )


def test_a_whole_model_has_sizes_that_its_peak_memory_grows_with():
    layers = Layer("Conv", ("x", "w", "b"), ("c",)), Layer("MatMul", ("c", "m"), ("y",))
    kernel, matrix = TensorSpec("float32", (2**19,)), TensorSpec("float32", (2**20,))
    tensors = {**dict.fromkeys("xcyb", MEBIBYTE), "w": kernel, "m": matrix}
    model = CanonicalModel("m", layers, ("x",), ("y",), tensors, frozenset("wbm"))
    assert PeakMemory().sizes(model) == (3.0, 4.0, 4.0, 3.0, 2.0, 2.0)
