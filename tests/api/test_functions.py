"""The Python API, and its page of examples."""

import doctest
import json
import pickle
import re
import subprocess
import sys
import tomllib
import traceback
from pathlib import Path

import dlbricks_suite
import numpy as np
import onnx
import pytest
from dlbricks_compare import compare
from dlbricks_serving import advise

import dlbricks_core as dlbricks
from dlbricks_core.commands.command import DISTRIBUTIONS
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.store import ResultStore

ROOT = Path(__file__).parents[2]
ORT = {"backend": "onnxruntime", "runs": 2, "threads": 1}


def test_the_page_of_examples_runs(tmp_path, kept_workers, monkeypatch):
    for framework in ("onnxruntime", "torch", "pandas", "dlbricks_private"):
        pytest.importorskip(framework)
    page = ROOT / "docs" / "guide" / "python.md"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    how = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=how)
    assert tried > 40
    assert failed == 0
    assert (tmp_path / "comparison.html").exists()


def test_importing_the_package_stays_light():
    code = (
        "import sys, dlbricks_core as d; print(d.__version__, *sorted("
        "{'numpy', 'onnx', 'sqlalchemy', 'matplotlib', 'torch', 'dlbricks_core.api'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [dlbricks.__version__]
    assert {"load", "cut", "time", "estimate", "Measuring"} <= set(dir(dlbricks))
    assert all(hasattr(dlbricks, name) for name in dlbricks.__all__)
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        dlbricks.lode  # noqa: B018


def test_every_source_gives_the_same_model(proto, tmp_path):
    path = tmp_path / "small.onnx"
    onnx.save(proto, path)
    raw = OnnxImporter().load(path)
    sources = (path, str(path), proto, raw)
    loaded = [dlbricks.load(source, batch=3) for source in sources]
    assert {str(each.ir.tensors["x"]) for each in loaded} == {"float32[3x8]"}
    assert {tuple(layer.op for layer in each.ir.layers) for each in loaded} == {("Relu", "Tanh")}
    assert dlbricks.load(loaded[0]).ir.layers == loaded[0].ir.layers
    assert dlbricks.load(proto, dims={"N": 5}).ir.tensors["y"].shape == (5, 8)
    assert dlbricks.load(proto, shapes={"x": (2, 8)}).ir.tensors["y"].shape == (2, 8)
    assert [row["layer"] for row in loaded[0].rows()] == ["Relu", "Tanh"]
    assert repr(loaded[0]) == "<LoadedModel small: 2 layers, inputs x: float32[3x8]>"


def test_anything_but_a_single_model_is_refused():
    with pytest.raises(ModelError, match="names 9 models") as error:
        dlbricks.load("onnx:")
    assert error.value.hint
    with pytest.raises(ModelError, match="does not exist"):
        dlbricks.load("absent.onnx")


def test_one_or_several_models_can_be_cut():
    one = dlbricks.cut("onnx:light_squeezenet")
    two = dlbricks.cut(["onnx:light_squeezenet", "onnx:light_squeezenet"], granularity=1)
    assert len(one) == len(two) == len(one.rows()) == 37
    occurrences = [sum(row["occurrences"] for row in each.rows()) for each in (one, two)]
    assert occurrences == [65, 130]
    assert one.to_dict()["totals"]["unique_bricks"] == 37


def test_timing_and_estimating_share_a_store(proto, tmp_path):
    pytest.importorskip("onnxruntime")
    model = dlbricks.load(proto, batch=2)
    nothing = {"predictor": "none", "store": tmp_path / "s.db"}
    empty = dlbricks.estimate(model, **nothing, **ORT)
    assert empty.rows()[0]["partial"]
    assert len(empty.failures) == 1
    predicted = dlbricks.estimate(model, store=tmp_path / "s.db", **ORT)
    assert predicted.failures == []
    assert predicted.to_dict()["models"][0]["origin"] == {"predicted": 1.0}
    with ResultStore.open(tmp_path / "s.db") as store:
        timings = dlbricks.time(model, store=store, granularity=1, **ORT)
    assert [row["layers"] for row in timings.rows()] == ["Relu", "Tanh"]
    assert all(0 < row["low"] <= row["value"] <= row["high"] for row in timings.rows())
    assert timings.failures == []
    assert "2 bricks on onnxruntime" in repr(timings)
    stored = dlbricks.estimate(model, store=tmp_path / "s.db", **ORT)
    assert stored.to_dict()["settings"]["batch"] is None  # nobody said how it was loaded
    (row,) = stored.rows()
    assert row["estimate"] > 0
    assert row["measured"] is None
    samples = [each["samples"] for each in timings.to_dict()["bricks"]]
    assert [each["samples"] for each in stored.to_dict()["bricks"]] == samples
    how = {"store": tmp_path / "s.db", **ORT}
    here = stored.to_dict()["system"]["fingerprint"]
    named = dlbricks.estimate(model, system=here[:8], **how)
    (one,), (other,) = (each.to_dict()["models"] for each in (stored, named))
    for each in (one, other):  # the free memory changes all the time
        del each["memory"]["available_bytes"]
    assert other == one
    with pytest.raises(DLBricksError, match="no system 'none'"):
        dlbricks.estimate(model, system="none", **how)


def test_models_of_one_name_have_a_ranking_each(proto, tmp_path):
    store = tmp_path / "s.sqlite"
    several = [dlbricks.load(proto, batch=batch) for batch in (2, 3)]
    dlbricks.time(several, backend="onnxruntime", runs=2, store=store)
    rows = advise(several, store=store).rows()
    assert [row["model"] for row in rows] == ["small", "small (2)"]
    found = dlbricks.estimate(several, backend="onnxruntime", store=store).to_dict()
    assert [each["name"] for each in found["models"]] == ["small", "small (2)"]


@pytest.mark.parametrize("asked", [{"predictor": "atlas"}, {"system": "71bf"}], ids=str)
def test_some_arguments_are_for_estimates_that_run_nothing(proto, asked):
    with pytest.raises(DLBricksError, match="run nothing") as error:
        dlbricks.estimate(proto, measure=True, **asked, **ORT)
    assert "measure" in error.value.hint


def test_comparing_needs_two_backends(proto):
    with pytest.raises(DLBricksError, match="cannot compare onnxruntime") as error:
        compare(dlbricks.load(proto, batch=1), backends=["onnxruntime"])
    assert "two or more" in error.value.hint


def test_an_estimate_finds_all_bricks_that_time_has_timed(tmp_path):
    pytest.importorskip("onnxruntime")
    how = {**ORT, "store": tmp_path / "s.db"}
    timed = dlbricks.time("onnx:light_squeezenet", **how).to_dict()
    found = dlbricks.estimate("onnx:light_squeezenet", measure=True, **how).to_dict()
    assert found["settings"] == timed["settings"]
    origins = [[each.pop("origin") for each in data["bricks"]] for data in (timed, found)]
    assert found["bricks"] == timed["bricks"]
    assert [set(each) for each in origins] == [{"measured"}, {"stored"}]
    effort = [each["benchmarking"] for each in (timed, found)]
    assert [each["reused_networks"] for each in effort] == [0, len(timed["bricks"])]
    assert [each["measured_networks"] for each in effort] == [len(timed["bricks"]), 0]


def test_an_estimate_is_as_precise_as_on_the_command_line(proto, tmp_path):
    pytest.importorskip("onnxruntime")
    model = dlbricks.load(proto, batch=2)

    def asked(**more):
        how = {"backend": "onnxruntime", "threads": 1, "store": tmp_path / "s.db", **more}
        how["measure"] = True
        settings = dlbricks.estimate(model, **how).to_dict()["settings"]
        return settings["composer"], settings["precision"]

    assert asked() == ("learned", 0.1)
    assert asked(precision=0.3) == ("learned", 0.3)
    assert asked(budget_s=1) == ("learned", 0.05)
    assert asked(precision=0.04, budget_s=1) == ("learned", 0.04)
    assert asked(composer="sequential", budget_s=1) == ("sequential", 0.01)
    assert asked(protocol="paper") == ("segmented", None)


@pytest.mark.parametrize("more", [{"granularity": 2}, {"composer": "similar"}])
def test_time_and_estimate_take_the_same_arguments(proto, tmp_path, more):
    pytest.importorskip("onnxruntime")
    how = {**ORT, "store": tmp_path / "s.db", **more}
    model = dlbricks.load(proto, batch=2)
    dlbricks.time(model, **how)
    found = dlbricks.estimate(model, measure=True, **how).to_dict()
    assert found["benchmarking"]["measured_networks"] == 0


def test_a_suite_of_structures_needs_no_key(proto, tmp_path):
    written = dlbricks_suite.generate(dlbricks.load(proto, batch=1), tmp_path / "suite")
    assert written.to_dict()["private"] is None
    assert [row["layers"] for row in written] == ["Relu, Tanh"]
    with pytest.raises(DLBricksError, match="already holds a suite"):
        dlbricks_suite.generate(dlbricks.load(proto, batch=1), tmp_path / "suite")
    cut = dlbricks_suite.generate(dlbricks.load(proto, batch=1), tmp_path / "cut", granularity=1)
    assert sorted(row["layers"] for row in cut) == ["Relu", "Tanh"]


def test_a_survey_goes_on_and_is_packed(tmp_path):
    pytest.importorskip("onnxruntime")
    from dlbricks_survey import pack_survey, take_survey

    how = {"backend": "onnxruntime", "threads": 1, "budget_s": 0.5, "store": tmp_path / "s.db"}
    first = take_survey(["onnx:light_squeezenet"], **how)
    again = take_survey(["onnx:light_squeezenet"], **how)
    assert first.survey.anew > 0
    assert again.survey.networks == first.survey.networks + again.survey.anew
    assert sum(row["networks"] for row in again) <= again.survey.networks
    (packed,) = pack_survey(tmp_path / "packed", store=tmp_path / "s.db")
    assert packed.exists()


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    bricks = dlbricks.cut("onnx:light_squeezenet")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DLBricksError, match="needs pandas, which is not installed") as error:
        bricks.to_frame()
    assert "pip install pandas" in error.value.hint
    assert bricks._repr_html_() is None
    assert len(list(bricks)) == 37


def test_pandas_is_the_extra_that_the_error_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert [each.split(">")[0] for each in project["optional-dependencies"]["pandas"]] == ["pandas"]


def test_a_notebook_shows_a_table():
    pytest.importorskip("pandas")
    assert dlbricks.cut("onnx:light_squeezenet")._repr_html_().startswith("<table")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("optimizations=off", "are 'optimizations=off'"),
        ({"optimizations": 3}, "option optimizations=3"),
        ({"optimisations": "off"}, "has no option 'optimisations'"),
    ],
)
def test_wrong_options_of_a_backend_are_errors_of_the_caller(proto, options, words):
    pytest.importorskip("onnxruntime")
    with pytest.raises(DLBricksError, match=words) as caught:
        dlbricks.time(dlbricks.load(proto, batch=1), backend="onnxruntime", backend_options=options)
    assert "Report" not in caught.value.hint
    assert caught.value.hint


def test_options_of_a_backend_that_is_not_compared_are_refused(proto):
    with pytest.raises(DLBricksError, match="'optimizations', which is not compared"):
        compare(
            proto, backends=["onnxruntime", "pytorch"], backend_options={"optimizations": "off"}
        )


MODEL = "onnx:light_squeezenet"


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (dlbricks.load, {"batch": "1"}, "batch cannot be '1'"),
        (dlbricks.load, {"batch": -1}, "batch cannot be -1"),
        (dlbricks.load, {"dims": ["N"]}, "dims cannot be"),
        (dlbricks.load, {"dims": {"N": 3.5}}, "dims cannot be"),
        (dlbricks.load, {"shapes": {"x": "3x8"}}, "shapes cannot be"),
        (dlbricks.load, {"values": {"x": "3"}}, "values cannot be"),
        (dlbricks.load, {"fold_batchnorm": "no"}, "fold_batchnorm cannot be 'no'"),
        (dlbricks.load, {"dtype": 16}, "dtype cannot be 16"),
        (dlbricks.cut, {"granularity": 0}, "granularity cannot be 0"),
        (dlbricks.cut, {"granularity": "2"}, "granularity cannot be '2'"),
        (dlbricks.time, {"backend": None}, "backend cannot be None"),
        (dlbricks.time, {"threads": 1.5}, "threads cannot be 1.5"),
        (dlbricks.time, {"runs": "3"}, "runs cannot be '3'"),
        (dlbricks.time, {"precision": "1%"}, "precision cannot be '1%'"),
        (dlbricks.time, {"budget_s": "10s"}, "budget_s cannot be '10s'"),
        (dlbricks.time, {"timeout_s": 0}, "timeout_s cannot be 0"),
        (dlbricks.time, {"seed": "x"}, "seed cannot be 'x'"),
        (dlbricks.time, {"store": 3}, "store cannot be 3"),
        (dlbricks.estimate, {"granularity": 0}, "granularity cannot be 0"),
        (dlbricks.estimate, {"measure": "yes"}, "measure cannot be 'yes'"),
        (dlbricks.estimate, {"force": 1}, "force cannot be 1"),
    ],
)
def test_an_argument_of_a_wrong_type_is_one_clear_error(function, arguments, words):
    backend = {"backend": "onnxruntime"} if function in (dlbricks.time, dlbricks.estimate) else {}
    with pytest.raises(DLBricksError, match=re.escape(words)) as caught:
        function(MODEL, **{**backend, **arguments})
    (name,) = arguments
    assert caught.value.hint.startswith(f"{name} takes ")


def test_a_model_is_loaded_in_another_element_type():
    found = dlbricks.load(MODEL, dtype="bfloat16")
    assert repr(found) == (
        "<LoadedModel light_squeezenet: 65 layers, inputs data_0: bfloat16[1x3x224x224]>"
    )
    with pytest.raises(DLBricksError, match="dtype float12 is not an element type") as caught:
        dlbricks.load(MODEL, dtype="float12")
    assert caught.value.hint == "There are bfloat16, float16, float32, int4, int8."


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("thread", "did you mean 'threads'?"),
        ("batch", "give it to load()"),
        ("colour", "there are runs, threads, precision"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_right_one(name, words):
    with pytest.raises(TypeError, match=f"unexpected argument '{name}': .*{re.escape(words)}"):
        dlbricks.estimate(MODEL, backend="onnxruntime", **{name: 1})


def test_backends_must_be_a_list():
    with pytest.raises(DLBricksError, match="backends cannot be 'onnxruntime'"):
        compare(MODEL, backends="onnxruntime")


def test_numbers_of_numpy_are_numbers(proto, tmp_path):
    pytest.importorskip("onnxruntime")
    model = dlbricks.load(proto, batch=np.int64(2), values={})
    assert model.ir.tensors["x"].shape == (2, 8)
    store = tmp_path / "s.db"
    done = dlbricks.time(
        model, backend="onnxruntime", store=store, runs=np.int64(2), threads=np.int32(1)
    )
    assert done.failures == []
    json.dumps(done.to_dict())


@pytest.mark.parametrize("source", [None, 3, b"onnx", "", {"a": MODEL}, [None], onnx.GraphProto()])
def test_anything_but_a_model_is_refused_with_a_hint(source):
    with pytest.raises(ModelError, match="not a model: ") as caught:
        dlbricks.cut(source)
    assert "A model is a path" in caught.value.hint


def test_an_empty_list_of_models_is_an_error():
    with pytest.raises(ModelError, match="no model is given"):
        dlbricks.cut([])


def test_a_traceback_shows_the_hint():
    with pytest.raises(DLBricksError) as caught:
        dlbricks.load("absent.onnx")
    error = pickle.loads(pickle.dumps(caught.value))
    for each in (caught.value, error):
        lines = "".join(traceback.format_exception_only(each)).splitlines()
        assert lines == [f"dlbricks_core.errors.ModelError: {each.message}", each.hint]


def test_a_hint_that_comes_later_is_shown_too():
    error = DLBricksError("broken").with_hint("mend it")
    lines = "".join(traceback.format_exception_only(error)).splitlines()
    assert lines == ["dlbricks_core.errors.DLBricksError: broken", "mend it"]


def test_representations_state_the_result_and_stay_short(proto, tmp_path):
    for framework in ("onnxruntime", "torch"):
        pytest.importorskip(framework)
    model = dlbricks.load(proto, batch=2)
    how = {"runs": 2, "threads": 1, "store": tmp_path / "s.db"}
    estimates = dlbricks.estimate([model] * 5, backend="onnxruntime", measure=True, **how)
    assert re.fullmatch(
        r"<Estimates: (small( \(\d\))? [\d.e-]+ ms(, | and )){3}2 more on onnxruntime \S+, "
        r"1 thread>",
        repr(estimates),
    )
    other = {**how, "predictor": "none", "store": tmp_path / "empty.db"}
    nothing = dlbricks.estimate(model, backend="onnxruntime", **other)
    assert "<Estimates: small unknown on" in repr(nothing)
    assert ", 1 failed>" in repr(nothing)
    compared = compare(model, backends=["onnxruntime", "pytorch"], **how)
    assert repr(compared).startswith("<ComparisonResult on onnxruntime, pytorch: small ")
    assert repr(model.ir) == "<CanonicalModel small: 2 layers, inputs x: float32[2x8]>"
    assert repr(model.ir.as_raw()).startswith("<RawModel small: ")


def test_representations_are_safe_to_print(proto):
    proto.graph.name = "\x1b[31mred\n"
    model = dlbricks.load(proto, batch=2)
    for shown in (repr(model), repr(model.ir), repr(dlbricks.cut([model]))):
        assert shown.isprintable()
        assert "red" in shown


def test_results_iterate_over_their_rows(proto):
    bricks = dlbricks.cut(dlbricks.load(proto, batch=2))
    assert list(bricks) == bricks.rows()
    assert len(bricks) == 2


def test_changing_returned_data_does_not_change_the_result(proto, tmp_path):
    pytest.importorskip("onnxruntime")
    timings = dlbricks.time(dlbricks.load(proto, batch=2), store=tmp_path / "s.db", **ORT)
    before = repr(timings), timings.rows()
    timings.to_dict()["bricks"].clear()
    timings.rows().clear()
    timings.warnings.append("x")
    assert (repr(timings), timings.rows()) == before
    assert "x" not in timings.warnings


@pytest.mark.parametrize(
    "function",
    [
        lambda path: dlbricks.load(path),  # the error comes from another process
        lambda path: dlbricks.load(path, batch=1),
        lambda path: dlbricks.load(path, batch=1, dims={"length": 2, "width": 3}),
        lambda path: dlbricks.time(path, backend="onnxruntime", precision=5.0),
        lambda path: dlbricks.time(path, backend="onnxruntime", precision=0.1, runs=3),
        lambda path: dlbricks.time(path, backend="onnxruntime", protocol="paper", budget_s=3),
    ],
)
def test_no_error_of_the_python_api_names_an_option(function, proto, tmp_path):
    pytest.importorskip("onnxruntime")
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[1].dim_param = "length"
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    with pytest.raises(DLBricksError) as caught:
        function(path)
    assert caught.value.hint
    assert not re.search(r"(^|[\s(])-{1,2}\w", f"{caught.value.message} {caught.value.hint}")


def test_commands_that_distributions_bring_are_functions_too(monkeypatch):
    import dlbricks as public

    assert public.compare is compare
    assert public.advise is advise
    monkeypatch.setitem(DISTRIBUTIONS, "advise", "dlbricks-absent")
    with pytest.raises(AttributeError, match="dlbricks-absent, which is not installed"):
        _ = public.advise
    with pytest.raises(AttributeError, match="nonsense"):
        _ = public.nonsense
