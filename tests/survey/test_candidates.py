"""Which networks a survey times next."""

from collections import Counter
from itertools import count, islice

import pytest
from dlbricks_prediction.training_data import drawn_family
from dlbricks_survey import candidates as module
from dlbricks_survey.candidates import BASE, SurveyCandidates
from dlbricks_survey.networks import draw, weights

from dlbricks_core.bricks import BrickSet
from dlbricks_core.measure.cutting import Target

#: Drawing takes seconds, once for all.
pytestmark = pytest.mark.long

_SOURCE, _DRAWN = draw(), []


def drawn():
    """What is drawn, in order, and once for all tests: networks are the same every time."""
    for place in count():
        if place == len(_DRAWN):
            _DRAWN.append(next(_SOURCE))
        yield _DRAWN[place]


@pytest.fixture(scope="module")
def stream():
    """Signatures of what is drawn, in order."""
    return [each.brick.signature for each in islice(drawn(), 2 * BASE)]


@pytest.fixture(autouse=True)
def small_pool(monkeypatch):
    monkeypatch.setattr(module, "_POOL", 2600)


@pytest.fixture
def pieces(residual):
    model = residual()
    return [Target(b, "brick", "resnet") for b in BrickSet.of([model], 1).bricks.values()]


def candidates(known=(), pieces=()):
    known = set(known)
    return SurveyCandidates(
        pieces, drawn(), lambda targets: known & {each.brick.signature for each in targets}
    )


def signatures(batch):
    return [each.brick.signature for each in batch]


def test_the_first_networks_come_in_order_whatever_errs(stream):
    found = candidates()
    assert {*signatures(found.next(30, {}))} == {*stream[:30]}
    assert {*signatures(found.next(20, {"pool": 9.0, "": 0.1}))} == {*stream[30:50]}
    assert found.drawn == 50


def test_networks_that_are_timed_do_not_come_again(stream):
    found = candidates(known=stream[:40:2])
    assert found.drawn == 20
    assert {*signatures(found.next(30, {}))} == {*stream[1:40:2], *stream[40:50]}


def test_alike_networks_of_a_batch_follow_each_other(pieces):
    batch = candidates(pieces=pieces).next(2 * len(pieces), {})
    assert signatures(batch[: len(pieces)]) == signatures(pieces)
    families = [each.group for each in batch[len(pieces) :]]
    assert families == sorted(families)


def test_bricks_of_models_are_half_of_a_batch_until_there_are_none(pieces):
    found = candidates(pieces=pieces)
    first = found.next(2, {})
    assert [each.group for each in first].count("resnet") == 1
    rest = found.next(20, {})
    assert [each.group for each in rest].count("resnet") == len(pieces) - 1
    every = signatures(first) + signatures(rest)
    assert len(set(every)) == 22
    assert set(signatures(pieces)) < set(every)
    without = candidates(known=signatures(pieces), pieces=pieces)
    assert not {each.group for each in without.next(2, {})} & {"resnet"}


def families(batch):
    return Counter(drawn_family(each.group) for each in batch)


@pytest.fixture
def after_base(stream):
    found = candidates(known=stream[:BASE])
    assert found.drawn == BASE
    return found


def test_afterwards_families_come_in_proportion_to_their_share(after_base):
    """Of the rarer ones all that there are: the pool holds so many and no more."""
    found = families(after_base.next(300, {}))
    total = sum(number for family, number in weights().items() if found[family])
    for family in ("convolution", "projection", "elementwise", "moving", "signal"):
        assert found[family] == pytest.approx(300 * weights()[family] / total, abs=2)


def test_a_family_that_errs_more_comes_more_often(after_base):
    errors = {"": 0.1, "pool": 0.4}
    found = families(after_base.next(200, errors))
    assert found["pool"] / weights()["pool"] == pytest.approx(
        4 * found["convolution"] / weights()["convolution"], rel=0.3
    )


def test_a_batch_that_ends_the_base_takes_the_rest_by_error(stream):
    found = candidates(known=stream[: BASE - 5])
    batch = signatures(found.next(20, {}))
    assert {*batch} >= {*stream[BASE - 5 : BASE]}
    assert len(set(batch)) == 20
    assert found.drawn == BASE + 15


def test_a_family_that_the_backend_never_supports_is_given_up(after_base):
    batch = after_base.next(400, {})
    pools = [each for each in batch if drawn_family(each.group) == "pool"]
    convolutions = [each for each in batch if drawn_family(each.group) == "convolution"]
    assert len(pools) >= module._TRIES
    after_base.refuse([*pools, *convolutions[1:]])
    again = families(after_base.next(300, {}))
    assert again["pool"] == 0
    assert again["convolution"] > 0
