"""Synthetic layers, and kernels under which their latencies hang together as is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction.features import NAMES, Features
from dlbricks_prediction.kernel import Kernel
from hypothesis import strategies as st

from dlbricks_core.facts import Setup, System
from dlbricks_core.facts.system import Cache

KINDS = ("convolution:dense", "elementwise", "elementwise@convolution", "product:weights", "view")

KERNEL = Kernel(
    common=0.1,
    of_class=0.05,
    of_kind=0.05,
    class_smooth=0.1,
    smooth=0.2,
    rough=0.1,
    smooth_scales=(4.0,) * len(NAMES),
    rough_scales=(1.5,) * len(NAMES),
    noise=1e-3,
)

SYSTEM = System(
    cpu="A Processor 1",
    vendor="A",
    family="25",
    model="1",
    isa=("avx2",),
    physical_cores=4,
    caches=(
        Cache(1, "instruction", 2**15, 2),
        Cache(1, "data", 2**15, 2),
        Cache(2, "unified", 2**20, 2),
        Cache(3, "unified", 2**25, 8),
    ),
    max_mhz=(4000,),
)


def some_features(count, seed=0):
    """Features of so many layers, drawn at random."""
    random = np.random.default_rng(seed)
    kinds = tuple(KINDS[i] for i in random.integers(len(KINDS), size=count))
    return Features(kinds, random.uniform(2, 26, (count, len(NAMES))))


@st.composite
def feature_lists(draw, most=8):
    """Features of a few layers: of some kinds, with any sizes that occur, some of them equal."""
    count = draw(st.integers(1, most))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=count, max_size=count))
    size = st.one_of(st.sampled_from((0.0, 1.0, 20.0)), st.floats(0, 40))
    row = st.lists(size, min_size=len(NAMES), max_size=len(NAMES))
    rows = draw(st.lists(row, min_size=count, max_size=count))
    return Features(tuple(kinds), np.array(rows))


@pytest.fixture(scope="session")
def kernel():
    return KERNEL


@pytest.fixture(scope="session")
def layers():
    return some_features


@pytest.fixture(scope="session")
def any_features():
    """The strategy for features of a few layers."""
    return feature_lists


@pytest.fixture(scope="session")
def system():
    """A processor with three levels of cache. Other systems differ from it in what is named."""
    return lambda **facts: replace(SYSTEM, **facts)


@pytest.fixture(scope="session")
def setup():
    return lambda **parts: replace(
        Setup("backend", "1.0", "{}", 1, "interleaved", "0.1.0"), **parts
    )
