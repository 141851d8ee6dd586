"""Surveys: what they time, what they leave out, and that nothing is lost."""

from dataclasses import replace
from functools import partial
from itertools import chain, count

import pytest
from dlbricks_prediction.survey import Drawn
from dlbricks_survey import surveying as package
from dlbricks_survey.surveying import survey

from dlbricks_core.bricks import Brick, extract, signature
from dlbricks_core.errors import DLBricksError, UnboundDimensionsError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import ImportSettings
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process

COUNT = 40
"""Networks of the first batch."""


def brick_of(builder, width, op="Relu", domain="", layers=1):
    b = builder((width,))
    last = b.input
    for _ in range(layers):
        last = b.add(op, last)
    model = b.model()
    model = replace(model, layers=tuple(replace(each, domain=domain) for each in model.layers))
    every = tuple(range(layers))
    identity = signature(model, every)
    return Brick(identity, extract(model, every, identity))


@pytest.fixture
def stream(monkeypatch, builder):
    """Draws tiny networks without end, the first ones as given."""
    first = []

    def draw(seed):
        bricks = chain(first, (brick_of(builder, width) for width in count(1)))
        return (Drawn("elementwise", brick) for brick in bricks)

    monkeypatch.setattr(package, "draw", draw)
    monkeypatch.setattr(package, "_listed", lambda observer: [])
    return first


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def surveyed(stream, asked, store):
    def run(observer=None, budget_s=0.1, specs=(), families=()):
        request = replace(asked, runs=2)
        how = LoadOptions(), ImportSettings(), families
        return survey(specs, request, store, observer or Observer(), budget_s, *how)

    return run


def test_what_fails_is_named_and_what_is_not_supported_is_left_out(stream, builder, surveyed):
    stream.append(brick_of(builder, 3, "Raise", "faulty", layers=30))
    stream.append(brick_of(builder, 3, "Unsupported", "faulty"))
    found = surveyed()
    assert found.anew == found.networks == found.families["elementwise"] == COUNT - 2
    (failure,) = found.failures
    assert "kernel not found" in failure.reason
    assert failure.subject.startswith("faulty.Raise ×30 (")
    (unsupported,) = found.unsupported
    assert "no counterpart" in unsupported.reason
    assert surveyed().failures == []


def test_only_networks_of_named_families_are_drawn(surveyed, monkeypatch, builder, store):
    def draw(seed):
        for width in count(1):
            yield Drawn("pool", brick_of(builder, width, "Sigmoid"))
            yield Drawn("elementwise", brick_of(builder, width))

    monkeypatch.setattr(package, "draw", draw)
    monkeypatch.setattr(package, "_listed", lambda observer: pytest.fail("models are loaded"))
    assert dict(surveyed(families=["pool"]).families) == {"pool": COUNT}
    assert {each.layers for each in store.measurements()} == {("Sigmoid",)}


def test_an_unknown_family_is_refused_at_once(surveyed):
    with pytest.raises(DLBricksError, match="family 'pools'"):
        surveyed(families=["pools"])


def test_each_survey_times_others(surveyed, store):
    surveyed()
    again = surveyed()
    assert (again.anew, again.networks) == (COUNT, 2 * COUNT)
    assert {len(each.values) for each in store.measurements()} == {2}


def test_what_was_measured_before_an_interruption_is_kept(surveyed, store, monkeypatch):
    class Interrupting(Observer):
        def advance(self, done=""):
            if list(store.measurements()):
                raise KeyboardInterrupt

    with monkeypatch.context() as quick:
        quick.setattr(package, "perf_counter", partial(next, count()))  # a second each time
        with pytest.raises(KeyboardInterrupt):
            surveyed(Interrupting(), budget_s=1e4)
    before = list(store.measurements())
    assert before
    found = surveyed()
    assert found.networks >= COUNT
    assert {len(each.values) for each in store.measurements()} == {2}
    assert {each.question for each in before} <= {e.question for e in store.measurements()}


def test_progress_is_told_in_seconds_of_the_budget(surveyed):
    class Counting(Observer):
        steps = None
        advanced = 0

        def stage(self, text, steps=None):
            assert self.steps is None
            self.steps = steps

        def advance(self, what=""):
            self.advanced += 1

    observer = Counting()
    found = surveyed(observer, budget_s=1.5)
    assert observer.steps == 2
    assert 1 <= observer.advanced <= 2
    assert found.seconds > 1
    assert found.networks >= COUNT


def test_models_that_nobody_named_are_left_out_with_a_note(surveyed, monkeypatch):
    class Noting(Observer):
        noted = ()

        def note(self, text):
            self.noted = (*self.noted, text)

    observer = Noting()
    monkeypatch.setattr(package, "_listed", lambda observer: ["onnx:nothing"])
    found = surveyed(observer, budget_s=1.0)
    assert ["onnx:nothing is left out" in text for text in observer.noted] == [True]
    assert found.unread == []
    named = surveyed(specs=["onnx:nothing"])
    assert [each.subject for each in named.unread] == ["onnx:nothing"]


def test_models_with_open_dimensions_share_a_line_for_each_collection(surveyed, monkeypatch):
    class Noting(Observer):
        noted = ()

        def note(self, text):
            self.noted = (*self.noted, text)

    def refuse(_loader, name):
        raise UnboundDimensionsError(f"{name}: dimensions without a size: tokens.0")

    observer = Noting()
    monkeypatch.setattr(package, "_listed", lambda observer: ["llm:a", "llm:b", "own:c"])
    monkeypatch.setattr(package.ModelLoader, "load_one", refuse)
    surveyed(observer, budget_s=1.0)
    assert sorted(text for text in observer.noted if "left out" in text) == [
        "llm: 2 models are left out, since they have dimensions without a size: give sizes with "
        "dims",
        "own: 1 model is left out, since it has dimensions without a size: give sizes with dims",
    ]


def test_large_bricks_of_models_are_left_out(surveyed, monkeypatch, builder, store):
    def model(side):
        b = builder((1, 64, side, side))
        b.conv(b.input)
        return b.model()

    monkeypatch.setattr(package, "_named", lambda *_: iter([model(300), model(2)]))
    surveyed(specs=["two"])
    found = [each for each in store.measurements() if each.layers == ("Conv",)]
    assert len(found) == 1
