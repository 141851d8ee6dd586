"""What a site shows of a store: each value as reports have it, with its origin."""

import re
import sqlite3
from dataclasses import replace

import pytest
from dlbricks_machine.names import name_machine
from dlbricks_pages import tables
from dlbricks_pages import view as words
from dlbricks_pages.contents import NetworkValue, read_atlas
from dlbricks_pages.pages import site
from dlbricks_pages.view import Axis, Mark, View
from hypothesis import example, given
from hypothesis import strategies as st

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, SCENARIO_LATENCY, Observation, Session, Subject
from dlbricks_core.figures import Measured
from dlbricks_core.figures.figure import interval
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.machine.system import current_system
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

SYSTEM = current_system()


def read(path):
    with ResultStore.open(path, writes=False) as store:
        return read_atlas(store, Observer())


def test_a_value_and_its_interval_are_those_of_reports(stored):
    (entry,) = read(stored((2.0, "a" * 24))).entries
    figure = Measured((2.0, 2.02, 2.04), next(iter(PROTOCOLS.values())))
    assert (entry.value, entry.interval) == (figure.value, interval(figure.replicates))
    assert (entry.origin, entry.evidence.samples) == ("measured", 3)


def test_a_store_without_measurements_is_an_error_with_a_hint(tmp_path):
    with pytest.raises(DLBricksError, match="holds no measurements"):
        read(tmp_path / "none.sqlite")


def test_samples_of_a_damaged_measurement_are_left_out(stored):
    path = stored((2.0, "a" * 24), (3.0, "b" * 24, "brick"))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE measurements SET unsupported = 9e999 WHERE signature LIKE 'b%'")
    atlas = read(path)
    assert [entry.subject.signature for entry in atlas.entries] == ["a" * 24]
    assert dict(site(atlas))


def test_queries_of_a_load_are_no_values(stored, question):
    path = stored((1.0, "a" * 24))
    query = replace(question("b" * 24, "model"), quantity=SCENARIO_LATENCY)
    with ResultStore.open(path) as store:
        store.add_all([(query, Observation("s", 0, (1.0, 2.0)), ["Conv"])])
    assert [entry.subject.signature for entry in read(path).entries] == ["a" * 24]


def test_a_system_without_facts_is_named_by_its_fingerprint(stored):
    atlas = read(stored((1.0, "a" * 24, "model", "x", 1, "f" * 16)))
    page = dict(site(atlas))[f"systems/{'f' * 16}.html"]
    assert "unknown processor · ffffffff" in page
    assert "the store holds none" in page


def test_equal_machines_are_told_apart_by_their_names(stored, question):
    path = stored((1.0, "a" * 24, "model"))
    with ResultStore.open(path) as store:
        other = Observation("t", 0, (8.0, 8.1, 8.2))
        store.add_all([(question("a" * 24, "model"), other, ["Conv"])])
        store.record_failure(question("b" * 24, "model"), "too large", ["Conv"])
        for session, host in ("s", "h1"), ("t", "h2"):
            store.keep_session(Session(session, host, SYSTEM.fingerprint, "0.1.0"))
    assert len(read(path).entries) == 1
    with ResultStore.open(path) as store:
        name_machine(store, f"{SYSTEM.fingerprint}@h1", "lab-1")
        name_machine(store, f"{SYSTEM.fingerprint}@h2", "Büro")
    atlas = read(path)
    found = {each.place.machine: each.value for each in atlas.entries}
    assert found == {"lab-1": pytest.approx(1, 0.1), "Büro": pytest.approx(8, 0.1)}
    assert {each.place.machine for each in atlas.failed} == {"lab-1", "Büro"}
    pages = dict(site(atlas))
    assert sum(path.startswith("systems/") for path in pages) == 2
    own = pages[f"systems/{SYSTEM.fingerprint}-lab-1.html"]
    assert f"{SYSTEM.cpu} · lab-1" in own
    assert "Büro" not in own
    assert "on 2 systems" in pages["index.html"]
    model = pages[f"models/{'a' * 24}.html"]
    assert f"{SYSTEM.cpu} · lab-1" in model
    assert f"{SYSTEM.cpu} · Büro" in model


def test_names_of_the_store_are_text_everywhere(stored):
    name = "<b>\u202e&{{7*7}}</script>"
    atlas = read(stored((1.0, "../../x<b>", "model", name), layers=(name,)))
    for path, text in site(atlas):
        assert ".." not in path
        assert "\u202e" not in text
        assert "49}}" not in text
        if not path.endswith("html"):  # JSON writes as an escape what a browser then shows
            assert not re.search(r"(?<!\\)\\u202e", text)
        else:
            assert "<b>" not in text
            assert text.count("<script") == text.count("</script>")


def test_a_site_of_too_many_pages_is_refused_before_it_is_written(stored, monkeypatch):
    atlas = read(stored(*((1.0, each * 24, "model") for each in "ab")))
    monkeypatch.setenv("DLBRICKS_MOST_FILES", "2")
    with pytest.raises(DLBricksError, match="3 pages, more than 2 files, the limit DLBRICKS_MOST"):
        next(site(atlas))


def test_a_store_of_too_many_models_is_refused_before_it_is_read(stored, monkeypatch):
    path = stored(*((1.0, each * 24, "model") for each in "ab"))
    monkeypatch.setenv("DLBRICKS_MOST_FILES", "2")
    monkeypatch.setattr(ResultStore, "sampled", None)
    with pytest.raises(DLBricksError, match="3 pages, more than 2 files, the limit DLBRICKS_MOST"):
        read(path)


def test_measured_latencies_come_before_lower_ones_that_are_not(stored):
    own, other = "a" * 24, "b" * 24
    atlas = read(stored((3.0, own, "model"), (2.0, other, "model")))
    place = atlas.places[0]
    guessed = replace(place, threads=8)
    entries = [
        NetworkValue(Subject(own, "model"), LATENCY, guessed, value, (value, value), origin)
        for value, origin in ((1.0, "predicted"), (2.5, "composed"))
    ]
    atlas = replace(atlas, entries=[*entries, *atlas.entries])
    shown = View(atlas)
    assert [each.origin for each in shown.by_model[own]] == ["measured", "composed", "predicted"]
    pages = dict(site(atlas))
    (row,) = re.findall(f"<tr>(?:(?!</tr>).)*{own}.*?</tr>", pages["models.html"], re.DOTALL)
    assert ">3.01<" in row or ">3.00<" in row
    assert "≈" not in row
    page = pages[f"models/{own}.html"]
    assert "ms at best, measured" in page
    assert "≈ 1.00 ms is predicted" in page
    wins = tables._wins(shown)
    assert (wins[place], wins[guessed]) == (2, 0)


def test_models_of_one_name_are_distinguished_and_names_may_be_left_out(stored):
    own = [letter * 24 for letter in "abc"]
    atlas = read(stored(*((1.0, each, "model") for each in own)))
    named = atlas.named({own[0]: "mine", own[1]: "mine", own[2]: "<b>yours"})
    assert View(named).models == {
        own[0]: "mine aaaaaaaa", own[1]: "mine bbbbbbbb", own[2]: "<b>yours"
    }  # fmt: skip
    page = dict(site(named))["models.html"]
    assert "&lt;b&gt;yours" in page
    assert "No name is shown" not in page
    hidden = named.named(None)
    assert "mine" not in "".join(text for _, text in site(hidden))
    assert "No name is shown of 3 models" in dict(site(hidden))["models.html"]


def test_a_model_that_failed_is_named_with_its_reason(stored, question):
    path = stored((1.0, "a" * 24))
    with ResultStore.open(path) as store:
        store.record_failure(question("b" * 24, "model"), "it <exploded>", ["Conv"])
    pages = dict(site(read(path)))
    for page in (f"models/{'b' * 24}.html", f"systems/{read(path).places[0].system}.html"):
        assert "it &lt;exploded&gt;" in pages[page]


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=9))
@example([0.75])  # a tick at the very end of the axis, but for its rounding
def test_all_values_lie_on_the_axis_and_it_has_ticks(values):
    axis = Axis.over([Mark("", value, (value, value), "", "measured") for value in values])
    places = [axis.at(value) for value in values]
    assert all(0 < place < 100 for place in places)
    assert [axis.at(value) for value in sorted(values)] == sorted(places)
    assert 1 <= len(axis.ticks) <= 7
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)


@given(st.text())
def test_pages_have_names_that_are_safe(identity):
    name = words.page_name(identity)
    assert re.fullmatch(r"[0-9a-z_-]+(\.hash)?\.html", name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("abc", "ABC"),  # on a disk that takes large letters for small ones
        ("a?", "a\ud800"),
        ("../x", words.page_name("../x").removesuffix(".html")),
        ("x" * 81, "x" * 82),
        ("", "."),
    ],
)
def test_no_two_networks_have_one_page(one, other):
    assert words.page_name(one).lower() != words.page_name(other).lower()


def test_values_that_were_measured_beside_other_programs_are_marked(stored, question):
    quiet, busy = "a" * 24, "b" * 24
    path = stored((1.0, quiet, "model"))
    values, flags = (4.0, 4.1, 4.2), ("others-used-cpus",)
    with ResultStore.open(path) as store:
        taken = Observation("t", 0, values, flags=flags, load=0.35)
        store.add_all([(question(busy, "model"), taken, ["Conv"])])
    atlas = read(path)
    by_name = {each.subject.signature: each for each in atlas.entries}
    assert (by_name[quiet].load, by_name[busy].load) == (0, 0.35)
    found = by_name[busy]
    assert found.interval[0] < 4.0 * 0.7 < found.value
    pages = dict(site(atlas))
    assert '"35%"' in pages["measurements.js"]
    assert "while others used 35% of the CPUs" in pages[f"models/{busy}.html"]
    assert ">35%<" in pages["models.html"]
    assert "35%" not in pages[f"models/{quiet}.html"]


def test_disturbed_samples_beside_enough_quiet_ones_mark_nothing(stored, question):
    own = "a" * 24
    path = stored((1.0, own, "model"))
    with ResultStore.open(path) as store:
        taken = Observation("t", 0, (4.0, 4.1), flags=("others-used-cpus",), load=0.35)
        store.add_all([(question(own, "model"), taken, ["Conv"])])
    (entry,) = read(path).entries
    assert entry.load == 0
    assert entry.value == pytest.approx(1.0, 0.02)
    assert entry.evidence.samples == 3
