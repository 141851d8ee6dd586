"""The physical baseline: right by hand, and never faster with more to do or less to do it with."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_prediction import baseline
from dlbricks_prediction.baseline import TERMS, Processor, doubted, expected_ms, shares_of_terms
from dlbricks_prediction.features import NAMES, Features
from dlbricks_testing import cases
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.facts import System
from dlbricks_core.facts.system import Cache
from dlbricks_core.passes.convert import convert

KIND = st.sampled_from(("convolution:dense", "function@product", "attention", "other"))
SIZES = ("flops", "read_bytes", "weight_bytes", "written_bytes")
START_MS = baseline._CALL_S * 1e3 * 3 / 4
"""Milliseconds to start a layer at 4 GHz, where 3 GHz are usual."""


def layer(kind, **numbers):
    """Features of a layer with so many operations and bytes, and nothing else."""
    row = [np.log2(numbers.get(name, 0) + 1) for name in NAMES]
    return Features((kind,), np.array([row]))


def takes(features, processor):
    (found,) = expected_ms(features, processor)
    return found


@pytest.fixture
def processor(system):
    return Processor.of(system(), 1)


def test_facts_of_a_system_say_what_it_can(system):
    found = Processor.of(system(), 1)
    assert found.peak == pytest.approx(8 * 4 * 4.0e9)  # 8 elements, 2 multiply-adds, 4 GHz
    assert [size for size, _ in found.caches] == [2**15, 2**20, 2**25]
    two = Processor.of(system(), 2)
    assert two.peak == pytest.approx(2 * found.peak)
    assert [size for size, _ in two.caches] == [2**16, 2**21, 2**25]
    wide = Processor.of(system(isa=("avx2", "avx512f")), 1)
    assert wide.peak == pytest.approx(1.5 * found.peak)  # loads and loops gain less
    # Zen 4 computes with half of a register at a time.
    zen = {"vendor": "AuthenticAMD", "model": "17", "isa": ("avx2", "avx512f")}
    split, whole = (Processor.of(system(**zen, family=family), 1) for family in ("25", "26"))
    assert whole.peak / split.peak == pytest.approx(1.5 * 1.66 / 1.42)


def test_of_an_unknown_system_something_ordinary_is_expected(system):
    found = Processor.of(System(), 1)
    assert found.peak > 0
    assert takes(layer("other", read_bytes=1e6), found) > takes(layer("other"), found)
    unknown = system(caches=(Cache(3, "unified", 0, 1),), max_mhz=())
    assert np.isfinite(takes(layer("other"), Processor.of(unknown, 1)))


def test_a_newer_generation_is_expected_to_do_everything_faster(system):
    """A virtual machine tells no clock rate, but the numbers of its processor."""
    kinds = ("convolution:dense", "elementwise", "other")
    older, newer = (
        Processor.of(system(vendor="AuthenticAMD", family=family, model="1", max_mhz=()), 1)
        for family in ("25", "26")
    )
    for kind in kinds:
        for sizes in ({}, {"flops": 1e9}, {"read_bytes": 1e5}, {"cold_bytes": 1e8}):
            assert takes(layer(kind, **sizes), newer) < 0.95 * takes(layer(kind, **sizes), older)


def test_operators_of_no_class_are_expected_to_be_hardly_vectorized(processor):
    rare, usual = (
        takes(layer(kind, flops=1e9), processor) for kind in ("other:det", "elementwise")
    )
    assert rare == pytest.approx(50 * usual, rel=0.01)


@pytest.mark.parametrize("kind", ["other:topk", "other:scatterelements"])
def test_what_depends_on_values_takes_ten_cycles_each(processor, kind):
    """A processor of 4 GHz: 2.5 ns. Measured: 2 to 3 ns a comparison, 4 to 6 ns an update."""
    assert takes(layer(kind, flops=1e6), processor) == pytest.approx(2.6, rel=0.1)


@pytest.mark.parametrize(("kind", "passes"), [("add-crossed", 1), ("where-rows", 3)])
def test_each_short_stretch_of_a_tensor_begins_a_loop(processor, kind, passes):
    """A processor of 4 GHz: 6 ns. Measured: 5 to 15 ns a stretch of 16 elements."""
    whole, parts = (
        takes(layer(f"elementwise:{kind}", flops=1e6, rows=rows), processor) for rows in (0, 1e5)
    )
    assert parts - whole == pytest.approx(passes * 1e5 * 6.25e-6, rel=1e-3)


def test_integers_are_divided_and_summed_one_by_one(processor):
    """Measured: 5 ns a division, 1 to 3 ns a sum, where floats take half a nanosecond at most."""
    for kind, most in (("elementwise:div-maps", 6), ("reduce:sum-last", 1)):
        found, usual = (takes(layer(f"{kind}{t}", flops=1e6), processor) for t in ("~int64", ""))
        assert 4 * usual < found < most
    one, other = (takes(layer(f"elementwise:add{t}", flops=1e6), processor) for t in ("~int64", ""))
    assert one == other


def test_quantizing_is_vectorized(processor):
    kinds = ("codes:written~uint8", "codes:read~uint8", "elementwise")
    one, other, plain = (takes(layer(kind, flops=1e6), processor) for kind in kinds)
    assert one == other == plain


def test_a_layer_of_nothing_takes_its_start(processor):
    assert takes(layer("other"), processor) == pytest.approx(START_MS)


def test_operations_take_their_share_of_the_peak(processor):
    found = takes(layer("convolution:dense", flops=2**36 - 1), processor)
    assert found == pytest.approx(2**36 / (0.6 * processor.peak) * 1e3, rel=1e-3)


@pytest.mark.parametrize(("columns", "times"), [(1, 16), (3, 16 / 3), (16, 1), (24, 4 / 3)])
def test_what_a_vector_leaves_empty_takes_as_long(processor, columns, times):
    """Measured: the last convolution of a restoration network takes three to six times as long."""
    empty = 2 ** np.log2(times) - 1
    narrow, wide = (
        takes(layer("convolution:dense", flops=1e9, column_waste=each), processor) - START_MS
        for each in (empty, 0)
    )
    assert narrow / wide == pytest.approx(times, rel=1e-6)


def test_what_no_cache_holds_comes_from_memory(processor):
    found = takes(layer("other", weight_bytes=2**34 - 1), processor)
    assert found == pytest.approx(2**34 / processor.memory * 1e3, rel=0.01)


def test_what_caches_hold_comes_faster(processor):
    rates = [nbytes / (takes(layer("other", read_bytes=nbytes), processor) - START_MS)
             for nbytes in (2.0**12, 2.0**18, 2.0**22, 2.0**30)]  # fmt: skip
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 10 * rates[-1]


def test_handing_over_a_tensor_is_cheaper_than_copying_it(processor):
    copied = takes(layer("copy", read_bytes=1e6), processor) - START_MS
    handed = takes(layer("enter:convolution", read_bytes=1e6), processor)
    assert 0 < handed < copied / 2


@given(
    kind=KIND,
    sizes=st.lists(st.floats(0, 1e12), min_size=4, max_size=4),
    more=st.floats(1.01, 100),
    which=st.sampled_from(SIZES),
    threads=st.integers(1, 8),
)
def test_more_to_do_never_takes_less(system, kind, sizes, more, which, threads):
    numbers = dict(zip(SIZES, sizes, strict=True))
    processor = Processor.of(system(), threads)
    less = takes(layer(kind, **numbers), processor)
    assert takes(layer(kind, **{**numbers, which: numbers[which] * more}), processor) >= less * (
        1 - 1e-9
    )
    assert 0 < less < np.inf


@given(kind=KIND, sizes=st.lists(st.floats(0, 1e12), min_size=4, max_size=4),
       threads=st.integers(1, 8))  # fmt: skip
def test_more_threads_never_take_longer(system, kind, sizes, threads):
    features = layer(kind, **dict(zip(SIZES, sizes, strict=True)))
    alone = takes(features, Processor.of(system(), 1))
    assert takes(features, Processor.of(system(), threads)) <= alone * (1 + 1e-9)


@given(sizes=st.lists(st.floats(0, 1e12), min_size=4, max_size=4))
def test_a_better_processor_is_never_slower(system, sizes):
    features = layer("convolution:dense", **dict(zip(SIZES, sizes, strict=True)))
    here = takes(features, Processor.of(system(), 1))
    larger = tuple(Cache(c.level, c.kind, 4 * c.size, c.shared_by) for c in system().caches)
    for better in ({"isa": ("avx512f",)}, {"max_mhz": (5000,)}, {"caches": larger}):
        assert takes(features, Processor.of(system(**better), 1)) <= here * (1 + 1e-9)


@given(st.data())
def test_layers_of_all_kinds_take_some_time(system, any_features, data):
    features = data.draw(any_features())
    found = expected_ms(features, Processor.of(system(), 1))
    assert np.isfinite(found).all()
    assert (found > 0).all()


def test_tensors_without_elements_take_some_time(processor):
    """Their logarithm counts: of nothing it would be infinite."""
    assert takes(layer("enter:nothing"), processor) > 0


def doubts(features, processor):
    """Covariance that short types add."""
    return doubted(np.zeros((len(features.kinds),) * 2), features, features, processor)


def test_a_type_that_is_converted_is_slower_by_an_unknown_factor():
    own = convert(cases.network("convolutions").model, "float16")
    features = Features.of(own)
    able, unable = (
        Processor.of(System(isa=("avx512f", *more)), 1) for more in (("avx512_fp16",), ())
    )
    assert ("float16" in able.rates, "float16" in unable.rates) == (False, True)
    ratio = expected_ms(features, unable) / expected_ms(features, able)
    assert ratio.max() > 2
    assert (ratio >= 1).all()
    assert not doubts(features, able).any()
    doubt = doubts(features, unable)
    heaviest = int(np.argmax(ratio))
    # The interval reaches from the rate of float32 to that of a plain loop.
    assert np.exp(2 * 1.645 * np.sqrt(doubt[heaviest, heaviest])) == pytest.approx(64, rel=0.5)
    assert np.linalg.eigvalsh(doubt).min() > -1e-9


def test_what_a_processor_converts_does_not_matter_to_float32():
    features = Features.of(cases.network("convolutions").model)
    able, unable = (Processor.of(System(isa=("avx512f", *more)), 1) for more in (("f16c",), ()))
    assert (expected_ms(features, able) == expected_ms(features, unable)).all()
    assert not doubts(features, unable).any()


@pytest.mark.parametrize(("dtype", "known"), [("codes", True), ("int8", False), ("uint8", False)])
def test_instructions_for_codes_take_four_of_them_for_a_float(dtype, known):
    """Whether a framework uses them is not known, so twice as fast is expected.

    What stands for codes may be computed with floats, in no more time than floats take.
    """
    without, able = (
        Processor.of(System(isa=("avx512f", *more)), 1) for more in ((), ("avx512_vnni",))
    )
    product = layer(f"product:weights~{dtype}", flops=1e12)
    ratio = expected_ms(product, without) / expected_ms(product, able)
    assert ratio == pytest.approx(2, rel=0.01)
    assert doubts(product, able) > doubts(product, without) >= 0
    assert known == (doubts(product, without) == 0)
    copied = layer(f"copy:joined~{dtype}", flops=1e12)
    assert expected_ms(copied, without) == expected_ms(copied, able)
    assert not doubts(copied, able).any()


@pytest.mark.parametrize("dtype", ["float8e4m3fn", "float8e5m2", "float4e2m1"])
def test_tiny_floats_are_converted_one_by_one_or_faster(dtype):
    """0.3 to 8 ns each were measured (2026-11-30, Zen 4); codes take 0.1 to 0.3 ns."""
    for more in ((), ("avx512_vnni", "avx512_fp16")):
        processor = Processor.of(System(isa=("avx512f", *more)), 1)
        tiny, codes = (
            layer(f"codes:read-weights~{each}", flops=2e6, read_bytes=1e6, written_bytes=4e6)
            for each in (dtype, "int8")
        )
        assert 0.5 < takes(tiny, processor) < 5
        assert takes(tiny, processor) > 3 * takes(codes, processor)
        assert np.exp(1.645 * np.sqrt(doubts(tiny, processor)[0, 0])) > 5


def test_doubts_are_common_to_a_class_and_a_type():
    processor = Processor.of(System(isa=("avx512f",)), 1)
    kinds = "product:weights~float16", "product:activations~float16", "product:weights~bfloat16"
    one, same, other = (layer(kind, flops=1e12) for kind in kinds)
    empty = np.zeros((1, 1))
    assert doubted(empty.copy(), one, same, processor) > 1
    assert not doubted(empty.copy(), one, other, processor).any()


@pytest.mark.parametrize("dtype", ["int64", "int32", "float64"])
def test_products_of_wide_types_are_expected_to_be_slower_and_doubted(processor, dtype):
    wide, usual = (layer(f"product:weights{mark}", flops=1e8) for mark in (f"~{dtype}", ""))
    assert 2 * takes(usual, processor) < takes(wide, processor) < 40 * takes(usual, processor)
    nothing = np.zeros((1, 1))
    assert doubted(nothing.copy(), wide, wide, processor)[0, 0] > 0.1
    assert doubted(nothing.copy(), wide, usual, processor)[0, 0] == 0
    moved = [layer(f"elementwise:add{mark}", read_bytes=1e8) for mark in (f"~{dtype}", "")]
    assert takes(moved[0], processor) == takes(moved[1], processor)


def test_of_an_operator_that_nobody_knows_the_interval_says_so(processor):
    unknown, known = layer("other:stranger", flops=1e6), layer("other:topk", flops=1e6)
    doubts = [doubted(np.zeros((1, 1)), each, each, processor)[0, 0] for each in (unknown, known)]
    assert doubts[0] > 2 * doubts[1] > 0
    assert doubted(np.zeros((1, 1)), unknown, known, processor)[0, 0] == 0


@pytest.mark.parametrize(
    ("kind", "numbers", "term"),
    [
        ("product:weights", {"flops": 1e9, "read_bytes": 1e3}, "products"),
        ("convolution:depthwise", {"flops": 1e9}, "loops"),
        ("function:exp", {"flops": 1e9}, "loops"),
        ("elementwise:add", {"read_bytes": 3e5}, "caches"),
        ("elementwise:add", {"read_bytes": 1e9}, "memory"),
        ("product:weights", {"weight_bytes": 1e6, "cold_bytes": 1e6}, "memory"),
        ("elementwise:add", {"read_bytes": 10}, "starts"),
    ],
)
def test_the_time_of_a_layer_is_made_up_of_physical_terms(processor, kind, numbers, term):
    shares = shares_of_terms(layer(kind, **numbers), processor)[:, 0]
    assert shares.sum() == pytest.approx(1)
    assert TERMS[int(shares.argmax())] == term
    assert shares.max() > 0.5
