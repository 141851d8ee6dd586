"""Remarks are counted once, ranked by what they do to the figures, and stand before them."""

import io
from dataclasses import replace

import onnx
import pytest
from dlbricks_pages.run import run_page
from onnx import TensorProto, helper

import dlbricks_core as dlbricks
from dlbricks_core.bricks import CutModel
from dlbricks_core.commands.estimate.terminal import print_run
from dlbricks_core.facts import Failure
from dlbricks_core.facts.note import warning
from dlbricks_core.figures.figure import Measured
from dlbricks_core.report.remarks import (
    Effect,
    Remark,
    alike,
    blamed_operators,
    ranked,
    run_remarks,
    sample_warnings,
)
from dlbricks_core.report.tables import Console

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def run(processes, tmp_path_factory):
    """A run of a network of five bricks, whose samples tests replace."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 2**18)) for n in "xy"]
    kinds = ("Relu", "Tanh", "Sigmoid", "Abs", "Neg")
    names = ["x", *"abcd", "y"]
    nodes = [helper.make_node(op, [names[i]], [names[i + 1]]) for i, op in enumerate(kinds)]
    model = helper.make_model(
        helper.make_graph(nodes, "five", values[:1], values[1:]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    found = dlbricks.time(
        model, backend="onnxruntime", runs=3, threads=1, granularity=1,
        store=tmp_path_factory.mktemp("store") / "s.db",
    ).result  # fmt: skip
    assert len(found.bricks) == 5
    return with_samples(found, *[(10.0, 10.1, 10.2, 10.1)] * 5)


def with_samples(run, *samples, warnings=()):
    """The run with other samples of its bricks, in milliseconds, and a given disturbance."""
    protocol = run.bricks[0].latency.protocol
    bricks = [
        replace(each, latency=Measured(taken, protocol), warnings=(), origin="measured")
        for each, taken in zip(run.bricks, samples, strict=True)
    ]
    return replace(run, bricks=bricks, ledger=replace(run.ledger, warnings=warnings, notes=()))


QUIET = (10.0, 10.1, 10.2, 10.1)
#: The faster half is steady, so that the interval is narrow.
SCATTERED = (10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.1, 10.1, 30.0, 40.0)
UNCERTAIN = (5.0, 10.0, 20.0, 40.0)


def texts(run):
    return [(remark.effect.label, remark.text) for remark in run_remarks(run)]


def test_bricks_without_figures_are_not_counted(run):
    few = with_samples(run, SCATTERED, *[QUIET] * 4)
    lacking = replace(few, bricks=[*few.bricks[:4], replace(few.bricks[4], latency=None)])
    assert texts(lacking)[0][1].startswith("samples of 1 of 4 bricks with figures (25% of the sum)")


@pytest.mark.process
def test_a_quiet_run_needs_no_remark(run):
    assert texts(run) == []


def test_scatter_that_intervals_cover_is_a_note(run):
    found = with_samples(run, SCATTERED, *[QUIET] * 4)
    assert texts(found) == [
        (
            "Note",
            "samples of 1 of 5 bricks (20% of the sum) scatter widely; the intervals include this",
        )
    ]


def test_scatter_in_one_of_several_models_names_it(run):
    (model,) = run.models
    found = with_samples(run, SCATTERED, *[QUIET] * 4)
    other = replace(model.cut.model, name="other", layers=(), outputs=())
    beside = replace(model, cut=CutModel(other, (), model.cut.graph))
    ((_, text),) = texts(replace(found, models=[model, beside]))
    assert text.startswith("samples of 1 of 5 bricks (20% of the sum) of five scatter widely")


def test_scatter_on_a_disturbed_machine_makes_the_figures_doubtful(run):
    others = (warning("others-used-cpus", used=1.5, cpus=2),)
    found = with_samples(run, *[SCATTERED] * 5, warnings=others)
    assert texts(found) == [
        ("Doubtful", "samples of 5 of 5 bricks (100% of the sum) scatter widely"),
        ("Warning", "other processes used 1.5 of 2 CPUs while measuring"),
    ]
    calm = with_samples(run, SCATTERED, *[QUIET] * 4, warnings=others)
    assert all(effect != "Doubtful" for effect, _ in texts(calm))


def test_uncertain_bricks_are_ranked_by_their_share_of_the_sum(run):
    few = with_samples(run, UNCERTAIN, *[QUIET] * 4)
    ((label, text),) = texts(few)
    assert label == "Warning"
    assert text.startswith("latencies of 1 of 5 bricks (")
    many = with_samples(run, *[UNCERTAIN] * 4, QUIET)
    ((label, text),) = texts(many)
    assert label == "Doubtful"
    assert text.startswith("latencies of 4 of 5 bricks (")


def test_short_runs_and_predictions_are_remarked_on(run):
    short = with_samples(run, (0.5, 0.5, 0.5, 0.5), *[QUIET] * 4)
    assert texts(short) == [("Note", "1 of 5 bricks (1% of the sum) take less than 1 ms a run")]
    assert sample_warnings(short.bricks[0]) == ["below 1 ms"]
    bricks = [replace(run.bricks[0], origin="predicted"), *run.bricks[1:]]
    found = replace(run, bricks=bricks)
    expected = "1 of 5 bricks (20% of the sum) is predicted: nobody measured it here"
    assert ("Note", expected) in texts(found)


def test_bricks_that_were_timed_while_disturbed_are_counted(run):
    flagged = warning("timed-while-disturbed", disturbance="cpus-far-apart")
    bricks = [replace(each, warnings=(flagged,)) for each in run.bricks[:2]]
    told = "timed while virtual CPUs were far from each other"
    found = replace(run, bricks=[*bricks, *run.bricks[2:]])
    assert texts(found) == [("Warning", f"2 of 5 bricks: {told}")]
    assert sample_warnings(bricks[0]) == [told]
    plain = replace(run.bricks[0], warnings=(warning("short-sample", sample_ms=0.5),))
    assert sample_warnings(plain) == []


def test_models_without_any_estimate_are_not_counted_as_estimates(run):
    def lacking(value):
        estimate = replace(run.models[0].estimate, value=value)
        return replace(run.models[0], estimate=estimate, missing={"a": "no"})

    ((_, text),) = texts(replace(run, models=[lacking(1.0), lacking(None)]))
    assert text.startswith(
        "1 estimate too low and 1 model without an estimate, because bricks are missing"
    )
    ((_, text),) = texts(replace(run, models=[lacking(None), lacking(None)]))
    assert text.startswith("2 models without an estimate, because bricks are missing: ")


@pytest.mark.parametrize(
    ("operators", "reason", "named"),
    [
        (("Conv", "Relu", "Gelu"), "no kernel for Gelu", ["Gelu"]),
        (
            ("ai.onnx.ml.SVMRegressor", "Add"),
            "SVMRegressor: no counterpart",
            ["ai.onnx.ml.SVMRegressor"],
        ),
        (("Conv", "Relu", "Gelu"), "the types differ", []),
        (("Gelu",), "the types differ", ["Gelu"]),
    ],
)
def test_only_operators_that_a_reason_names_are_blamed(operators, reason, named):
    assert blamed_operators(operators, reason) == named


def test_the_worst_remarks_come_first_and_each_once():
    note, warning, doubt = (
        Remark(effect, "text") for effect in (Effect.NOTE, Effect.WARNING, Effect.DOUBTFUL)
    )
    assert ranked([note, warning, note, doubt]) == [doubt, warning, note]


def test_failures_with_one_reason_share_a_line():
    failures = [Failure("m", "no", "measure", part) for part in "abcde"]
    assert alike(failures, 3) == [("m: a, b, c and 2 more", "no")]
    assert alike(failures) == [("m: a, b, c, d and e", "no")]
    assert alike([Failure("a", "no", "read"), Failure("b", "no", "read")]) == [("a and b", "no")]


def printed(found):
    console = Console(width=80, file=io.StringIO())
    print_run(console, found)
    return console.file.getvalue()


def test_remarks_that_make_figures_doubtful_stand_before_them(run, read_page):
    found = with_samples(run, *[UNCERTAIN] * 5, warnings=(warning("cpu-use-unknown"),))
    lines = printed(found).splitlines()
    assert max(map(len, lines)) <= 80
    (table,) = [i for i, line in enumerate(lines) if line.strip().startswith("Model ")]
    (doubt,) = [i for i, line in enumerate(lines) if line.startswith("Doubtful:")]
    (busy,) = [i for i, line in enumerate(lines) if "CPU use of other programs is unknown" in line]
    assert lines[0].startswith("five on onnxruntime")
    assert 0 < doubt < busy < table < 24
    page = read_page(run_page(found)).text
    assert page.index("Doubtful:") < page.index("Parallel: the critical path")


def test_notes_and_failures_stand_below_the_figures(run):
    failing = replace(run, unread=[Failure("absent.onnx", "there is no such file", "read")])
    text = printed(with_samples(failing, SCATTERED, *[QUIET] * 4))
    order = ["1 failure, named below", "Model ", "Note:", "absent.onnx: there is no such file"]
    places = [text.index(each) for each in order]
    assert places == sorted(places)


def test_a_page_says_where_the_figure_of_a_model_that_ran_whole_comes_from(run, read_page):
    sentence = "not the sum of its bricks"
    composed = with_samples(run, *[QUIET] * 5)
    assert sentence not in read_page(run_page(composed)).text
    whole = replace(
        composed,
        models=[replace(each, is_measurement=True) for each in composed.models],
        bricks=[replace(each, latency=None, failure="not measured") for each in composed.bricks],
    )
    page = read_page(run_page(whole)).text
    assert sentence in page
    assert "Share of each kind of brick" not in page
