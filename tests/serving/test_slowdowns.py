"""How much longer a model takes beside others, as the physical baseline expects."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from dlbricks_serving.serving.slowdowns import slowdowns
from dlbricks_testing import cases
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.facts import Setup, System
from dlbricks_core.facts.system import Cache

LAST = Cache(3, "unified", 2**22, 8)
SYSTEM = System(available_cores=64, caches=(Cache(1, "data", 2**15, 1), LAST))
ALONE = Setup("twin", "1.0", "{}", 1, "interleaved", "0.1.0")

FEW = st.lists(st.integers(1, 64), min_size=1, max_size=6).map(sorted)


@cache
def product(rows, size):
    """A model of one product of some rows with a square matrix of weights."""
    given = f"float[{rows},{size}] x, float[{size},{size}] w"
    return cases.build(f"({given}) => (float[{rows},{size}] y) {{ y = MatMul(x, w) }}").model


@given(FEW, st.sampled_from((1, 2, 4)))
def test_a_model_beside_more_others_takes_no_less(numbers, threads):
    found = slowdowns(product(1, 512), SYSTEM, replace(ALONE, threads=threads), numbers)
    assert found == sorted(found)
    assert found[0] >= 1
    assert slowdowns(product(1, 512), SYSTEM, ALONE, [1]) == [1.0]


def test_what_reads_memory_waits_and_what_computes_does_not():
    numbers = [16]
    (reads,) = slowdowns(product(1, 2048), SYSTEM, ALONE, numbers)
    (computes,) = slowdowns(product(512, 512), SYSTEM, ALONE, numbers)
    assert reads > 2
    assert computes < 1.2


def test_a_cache_that_others_do_not_share_stays_whole():
    own = replace(SYSTEM, caches=(SYSTEM.caches[0], replace(LAST, shared_by=1)))
    sizes = product(1, 800)  # 2.5 MB of weights: in the whole cache, but not in its eighth part
    (shared,) = slowdowns(sizes, SYSTEM, ALONE, [8])
    (whole,) = slowdowns(sizes, own, ALONE, [8])
    assert shared > whole


@pytest.mark.parametrize("caches", [(), (Cache(3, "unified", 0, 1),)])
def test_of_unknown_caches_only_the_memory_is_shared(caches):
    (found,) = slowdowns(product(1, 2048), replace(SYSTEM, caches=caches), ALONE, [4])
    assert found > 1
