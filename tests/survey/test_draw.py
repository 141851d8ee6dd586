"""Networks that surveys draw: the same everywhere, quick, and in canonical form."""

import hashlib
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from dlbricks_prediction import shipped
from dlbricks_prediction.features import Features
from dlbricks_prediction.survey import is_quick
from dlbricks_prediction.survey.families import FAMILIES, Draft
from dlbricks_survey.candidates import BASE
from dlbricks_survey.families.domains import ACTIVATED, BLOCKS, DOMAINS, ODD
from dlbricks_survey.families.further import FURTHER
from dlbricks_survey.families.short import SHORT
from dlbricks_survey.networks import (
    FIFTH,
    FIRST,
    FOURTH,
    SECOND,
    SIXTH,
    THIRD,
    draw,
    weights,
)

from dlbricks_core.bricks import signature

#: Drawing takes seconds, once for all.
pytestmark = pytest.mark.long

EVERY = [*FAMILIES, *FURTHER, *ACTIVATED, *DOMAINS, *SHORT, *ODD, *BLOCKS]


@pytest.fixture(scope="module")
def drawn():
    return list(islice(draw(), SIXTH + 600))


def test_the_first_networks_stay_what_atlases_hold(drawn):
    """Measured latencies are found by signature: others would have to be measured anew."""
    found = []
    for part in (drawn[:FIRST], drawn[FIRST:SECOND], drawn[SECOND:THIRD], drawn[THIRD:FOURTH]):
        text = "".join(each.brick.signature for each in part)
        found.append(hashlib.sha256(text.encode()).hexdigest()[:16])
    assert found == [
        "5b58f4a4ab88495c", "179bd00651fe4c93", "de2d0a9aaf7cb36d", "38d4ff6b4b2c3c5e",
    ]  # fmt: skip


@pytest.mark.parametrize("backend", ["mxnet", "onnxruntime"])
def test_the_package_holds_latencies_of_the_first_networks(drawn, backend):
    """By them, systems can be compared. PyTorch's take longer in a survey than in a model."""
    for each in shipped(backend):
        known = {*each.signatures}
        assert all(one.brick.signature in known for one in drawn[:BASE])


@pytest.mark.parametrize(
    ("families", "begin"),
    [
        (FURTHER, FIRST),
        (ACTIVATED, SECOND),
        (DOMAINS, THIRD),
        (SHORT, FOURTH),
        (ODD, FIFTH),
        (BLOCKS, SIXTH),
    ],
)
def test_further_families_join_after_the_first_networks(drawn, families, begin):
    further = {family.__name__ for family in families}
    assert not any(each.family in further for each in drawn[:begin])
    assert sum(each.family in further for each in drawn[begin:]) > 30


def test_functions_and_clipping_after_convolutions_are_drawn(drawn):
    """As kinds of their own, after dense and after depthwise convolutions."""
    kinds = Counter(
        kind
        for each in drawn[SECOND:]
        if each.family in {family.__name__ for family in ACTIVATED}
        for kind in Features.of(each.brick.model).kinds
    )
    for kind in ("elementwise:clip", "function:swish", "function:hardswish"):
        assert kinds[f"{kind}@convolution"] >= 5
    assert kinds["convolution:depthwise"] >= 20


def test_what_further_domains_need_is_drawn(drawn):
    """Kinds of which an atlas would otherwise have few or no samples."""
    kinds = {
        kind
        for each in drawn[THIRD:]
        if each.family in {family.__name__ for family in DOMAINS}
        for kind in Features.of(each.brick.model).kinds
    }
    assert kinds >= {
        "convolution:dense", "convolution:dense-volume", "convolution:transposed-volume",
        "softmax:inner", "pool:max-volume", "resize:nearest", "resize:linear", "resize:cubic",
        "recurrent:gru", "recurrent:lstm", "elementwise:prelu-scalar", "copy:joined-last",
        "reduce:most-last", "gather:parts", "gather:elements", "product:einsum",
        "product:einsum-apart",
    }  # fmt: skip


def kinds_of_some(families):
    """Kinds of the layers of forty networks of each family."""
    random, kinds = np.random.default_rng(0), set()
    for family in families:
        for _ in range(40):
            draft = Draft()
            family(draft, random)
            kinds |= set(Features.of(draft.model(family.__name__)).kinds)
    return kinds


def test_what_groups_that_fill_no_vector_need_is_drawn():
    assert kinds_of_some([*ODD, *BLOCKS]) >= {
        "convolution:grouped-fours", "convolution:grouped-odd", "scale:fours@convolution",
        "scale:fours", "pool:max-fours", "pool:mean-fours", "reduce:map-fours",
    }  # fmt: skip


def test_what_short_types_need_is_drawn():
    assert kinds_of_some(SHORT) >= {
        "convolution:dense~float16", "convolution:dense~uint8", "convolution:depthwise~uint8",
        "convolution:dense~codes", "product:weights~codes", "elementwise:add-maps~codes",
        "product:weights~bfloat16", "product:weights~uint8", "product:4-bit~uint8",
        "codes:read-weights~int8@product", "codes:written~uint8@convolution",
        "codes:ranged~uint8", "elementwise:add~uint8@convolution",
    }  # fmt: skip


def test_each_network_comes_once_and_is_quick(drawn):
    assert len({each.brick.signature for each in drawn}) == len(drawn)
    assert all(is_quick(each.brick.model) for each in drawn)
    assert not any(each.brick.opaque for each in drawn)


def test_families_come_as_often_as_they_should(drawn):
    counts = Counter(each.family for each in drawn[:FIRST])
    total = sum(FAMILIES.values())
    for family, number in FAMILIES.items():
        # Large ones are thrown away, and of softmax there are few.
        assert counts[family.__name__] < 1.6 * FIRST * number / total + 10
        assert counts[family.__name__] > 0.5 * FIRST * number / total - 10


def test_a_seed_decides_what_is_drawn():
    first, again, other = (
        [each.brick.signature for each in islice(draw(seed), 20)] for seed in (3, 3, 4)
    )
    assert first == again
    assert len(set(first) & set(other)) < 5


def test_each_family_has_a_weight_and_a_name_of_its_own():
    assert len(weights()) == len(EVERY)
    assert min(weights().values()) > 0


@pytest.mark.parametrize("family", EVERY, ids=lambda family: family.__name__)
def test_networks_of_each_family_are_whole(family):
    """What nothing reads is an output, shapes are static, and layers have features."""
    random = np.random.default_rng(5)
    for _ in range(12):
        draft = Draft()
        family(draft, random)
        model = draft.model(family.__name__)
        assert all(tensor.is_static for tensor in model.tensors.values())
        assert not any(layer.opaque for layer in model.layers)
        read = {name for layer in model.layers for name in layer.reads}
        assert read.issuperset(model.inputs)
        assert read.issuperset(model.weights)
        assert signature(model, range(len(model.layers)))
        features = Features.of(model)
        assert len(features.kinds) == len(model.layers)
        assert np.isfinite(features.numbers).all()
