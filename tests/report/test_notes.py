"""Notes of the engine have no words; one catalogue has the sentence of each."""

import ast
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace

import dlbricks_compare.notes  # noqa: F401 - adds its sentences
import dlbricks_prediction.notes  # noqa: F401 - adds its sentences
import dlbricks_quantities.notes  # noqa: F401 - adds its sentences
import dlbricks_serving.notes  # noqa: F401 - adds its sentences
import dlbricks_sizes.notes  # noqa: F401 - adds its sentences
import dlbricks_study.notes  # noqa: F401 - adds its sentences
import dlbricks_survey.notes  # noqa: F401 - adds its sentences
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dlbricks_core
from dlbricks_core.estimation.extrapolation import too_many_threads
from dlbricks_core.facts import Note
from dlbricks_core.facts.note import PLUGIN, note, warning
from dlbricks_core.report.notes import WORDS, add_words, note_data, text, texts
from dlbricks_core.report.remarks import Effect, Remark

CORE = Path(dlbricks_core.__file__).parent
PLUGINS = sorted((CORE.parent / "plugins").glob("*/src"))


def calls():
    """Every call of ``note`` or ``warning`` in the code, with its place."""
    for path in sorted(path for each in (CORE, *PLUGINS) for path in each.rglob("*.py")):
        source = path.read_text("utf-8")
        if not re.search(r"\bnotes? import", source) and path.name != "note.py":
            continue
        for node in ast.walk(ast.parse(source)):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if named and node.func.id in ("note", "warning") and node.args:
                yield f"{path.name}:{node.lineno}", node


MADE = dict(calls())


def code_of(call):
    (first, *_) = call.args
    return PLUGIN if isinstance(first, ast.Name) and first.id == "PLUGIN" else first.value


def test_every_code_has_words_and_no_words_are_unused():
    assert {code_of(call) for call in MADE.values()} == WORDS.keys()


@pytest.mark.parametrize("place", MADE)
def test_a_note_has_the_values_that_its_sentence_needs(place):
    call, words = MADE[place], WORDS[code_of(MADE[place])]
    given_names = {keyword.arg for keyword in call.keywords}
    parameters = inspect.signature(words).parameters
    if {"precision", "figures", "more"} <= parameters.keys():  # added once figures are known
        assert words(precision=0.1, figures=[], more=1, **dict.fromkeys(given_names, 1))
    else:
        assert given_names == parameters.keys()


@pytest.mark.parametrize("place", MADE)
def test_values_of_a_note_are_facts_and_no_sentences(place):
    for keyword in MADE[place].keywords:
        parts = list(ast.walk(keyword.value))
        assert not any(isinstance(part, ast.JoinedStr) for part in parts)
        assert not any(isinstance(part, ast.Attribute) and part.attr == "format" for part in parts)


@pytest.mark.long
def test_only_the_helpers_make_notes():
    """So that the tests above see all of them."""
    makers = [
        str(path.relative_to(CORE))
        for path in CORE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Note"
    ]
    assert set(makers) == {"facts/note.py"}


def test_json_has_the_code_and_the_values_beside_the_sentence():
    made = warning("others-used-cpus", "lab", used=1.04, cpus=2)
    assert note_data(made) == {
        "code": "others-used-cpus",
        "severity": "warning",
        "subject": "lab",
        "values": {"used": 1.04, "cpus": 2},
        "text": "lab: other processes used 1.0 of 2 CPUs",
    }
    assert Note.from_dict(json.loads(json.dumps(note_data(made)))) == made


def test_sentences_of_plugins_stay_as_they_are():
    assert text(warning(PLUGIN, text="a sentence")) == "a sentence"
    assert texts([note_data(note("store-ended").also(
        precision=0.1, figures=[{"name": "a", "half_width": 0.2}], more=0,
    ))]) == ["not within ±10% (the store has no further measurements): a ±20.0%"]  # fmt: skip
    old = "timed while virtual CPUs were far from each other"
    told = {text(warning("timed-while-disturbed", disturbance=each)) for each in (old, FAR)}
    assert told == {old}


FAR = "cpus-far-apart"


def test_a_distribution_adds_sentences_and_replaces_none(monkeypatch):
    monkeypatch.setattr("dlbricks_core.report.notes.WORDS", {"old": str})
    add_words({"new": lambda number: f"{number} of them"})
    assert text(note("new", "resnet", number=2)) == "resnet: 2 of them"
    with pytest.raises(ValueError, match="these notes already have a sentence: new, old"):
        add_words({"other": str, "old": str, "new": str})


def test_subjects_are_named_from_the_outside_in():
    inner = note("no-common-cut", "resnet")
    assert text(inner.about("mxnet")).startswith("mxnet, resnet: no cut ")
    assert text(note("no-common-cut").about("mxnet")).startswith("mxnet: no cut ")


def test_the_severity_ranks_a_note():
    made = Remark.of(warning("cpu-use-unknown")), Remark.of(note("timed-in-place"))
    assert [each.effect for each in made] == [Effect.WARNING, Effect.NOTE]


VALUES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 1) | st.text(max_size=1))


@given(VALUES, VALUES)
def test_equal_notes_are_one(first, second):
    one, other = note("plugin", **first), note("plugin", **second)
    assert (one == other) == (first == second)
    assert len({one, other, note("plugin", **first)}) == (1 if first == second else 2)


@pytest.mark.parametrize(("times", "told"), [(5.63, "5.6"), (30449.3, "30,000")])
def test_a_factor_has_two_digits(times, told):
    beside = note("measured-beside-others", load=0.8, times=times, stored=True)
    assert f"may be up to {told} times as long" in text(beside)


def test_threads_beyond_the_cpus_are_named():
    request = SimpleNamespace(
        setup=SimpleNamespace(backend="onnxruntime", threads=99),
        target=SimpleNamespace(logical_cpus=2),
    )
    (first,) = too_many_threads(request)
    assert text(first).startswith("99 threads on 2 CPUs: predictions are as if there were 2")
    request.setup.threads = 2
    assert list(too_many_threads(request)) == []
