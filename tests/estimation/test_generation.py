"""Answers and curves follow from results of models at several sizes."""

import json
import re
from dataclasses import replace
from functools import partial

import numpy as np
import onnx
import pytest
from dlbricks_pages.sizes import sizes_plot
from dlbricks_sizes import (
    Generation,
    Sweep,
    load_asked,
    of_task,
    read_asked,
)
from dlbricks_sizes.generation import _of_context, _of_scores
from dlbricks_sizes.report import engines
from dlbricks_sizes.roofline import Roofline, within

from dlbricks_core.commands.options.workload import PHASES, Workload
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.figures.figure import interval
from dlbricks_core.importers import LoadOptions
from dlbricks_core.ir import read_model
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.usefixtures("kept_workers")


@pytest.fixture(scope="module")
def path(save_decoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("decoders") / "decoder.onnx"
    save_decoder(path, ("batch_size", "sequence_length", "past_sequence_length"), hidden=256)
    return str(path)


@pytest.fixture
def predicted_of(tmp_path):
    """What was asked of a decoder, all of it predicted."""

    def told(path, asked, **options):
        loaded = read_asked([str(path)], asked, LoadOptions(**options))
        request = Request.of("onnxruntime", threads=1)
        with ResultStore.open(tmp_path / "s.sqlite") as store:
            return loaded.completed(estimate(loaded.models, None, request, store, PREDICTOR))

    return told


@pytest.fixture
def predicted(path, predicted_of):
    """What was asked of the decoder, all of it predicted."""
    return partial(predicted_of, path)


def shapes(loaded):
    (each,) = loaded.every
    return [
        (m.tensors["input_ids"].sizes, m.tensors["past_key_values.0.key"].sizes[2])
        for m in each.models.values()
    ]


def test_each_size_is_loaded_once(path):
    asked = Generation({"prompt": (8, 10), "generate": (3,), "batch": (2,)})
    loaded = load_asked([path], asked, LoadOptions(), Observer())
    assert shapes(loaded) == [((2, 8), 0), ((2, 1), 8), ((2, 1), 9), ((2, 10), 0), ((2, 1), 10),
                              ((2, 1), 11)]  # fmt: skip
    overlapping = Generation({"prompt": (8, 9), "generate": (3,)})
    assert len(read_asked([path], overlapping, LoadOptions()).models) == 5


def test_the_cache_before_the_prompt_counts(path):
    asked = Generation({"prompt": (8,), "generate": (2,), "depth": (100,)})
    assert shapes(read_asked([path], asked, LoadOptions())) == [((1, 8), 100), ((1, 1), 108)]


def test_depths_are_those_of_the_tokens_after_the_first():
    assert list(Workload(8, 4).depths) == [8, 9, 10]
    assert list(Workload(8, 1, depth=5).depths) == []


def test_times_add_up(predicted):
    (answer,) = predicted(Generation({"prompt": (64,), "generate": (101,)})).over_sizes.answers
    assert list(answer.curve) == [64, 114, 163]
    ms = [each.estimate.value for each in answer.curve.values()]
    assert min(ms) < answer.token.estimate.value < max(ms)
    total = answer.first.estimate.value + 100 * answer.token.estimate.value
    assert answer.total.estimate.value == pytest.approx(total)
    assert answer.generation_rate.value == pytest.approx(1e3 / answer.token.estimate.value)
    assert answer.prompt_rate.value == pytest.approx(64e3 / answer.first.estimate.value)
    assert answer.output_rate.value == pytest.approx(101e3 / answer.total.estimate.value)
    low, high = answer.generation_rate.interval
    assert low < answer.generation_rate.value < high


def test_each_token_has_a_time_of_its_own(predicted):
    (answer,) = predicted(Generation({"prompt": (64,), "generate": (101,)})).over_sizes.answers
    tokens = answer.tokens
    assert list(tokens) == list(range(64, 164))
    assert tokens[114].value == pytest.approx(answer.curve[114].estimate.value)
    assert tokens[89].value == pytest.approx((tokens[64].value + tokens[114].value) / 2)
    mean = np.mean([each.value for each in tokens.values()])
    assert mean == pytest.approx(answer.token.estimate.value)
    low, high = tokens[89].interval
    assert low < tokens[89].value < high
    (single,) = predicted(Generation({"prompt": (8,), "generate": (1,)})).over_sizes.answers
    assert single.tokens == {}


def test_an_estimate_beyond_the_roofline_is_refused_by_name(predicted):
    result = predicted(Generation({"prompt": (64,), "generate": (3,)}))
    prompt = result.models[0]
    least = Roofline(1e9).least_ms(prompt.cut.model)
    fast = 1e9 * least / prompt.estimate.value
    assert within(Roofline(1.01 * fast), result).models == result.models
    refused = within(Roofline(0.99 * fast), result)
    assert [each.estimate.value is None for each in refused.models] == [True, False, False]
    (failure,) = refused.failures
    assert (failure.subject, failure.stage) == ("decoder [64 after 0]", "compose")
    assert "refused as a defect" in failure.reason
    assert not refused.is_sound
    seen = replace(prompt, is_measurement=True)
    assert within(Roofline(1.0), replace(result, models=[seen])).models == [seen]


def test_an_answer_beyond_the_roofline_has_no_figures(predicted, monkeypatch):
    monkeypatch.setattr(Roofline, "of", lambda _result: Roofline(1.0))
    result = predicted(Generation({"prompt": (64,), "generate": (3,)}))
    assert [each.subject for each in result.failures] == [
        "decoder [64 after 0]",
        "decoder [1 after 64]",
        "decoder [1 after 65]",
    ]
    (answer,) = result.over_sizes.answers
    assert answer.first.estimate.value is None
    assert answer.token.estimate.value is None
    assert not result.is_sound


def test_what_the_joint_fit_lowers_is_held_against_the_roofline(predicted, monkeypatch):
    def lowered(_models, result):
        found = [
            replace(each, estimate=replace(each.estimate, value=1e-9)) for each in result.models
        ]
        return replace(result, models=found)

    monkeypatch.setattr("dlbricks_sizes.generation.with_joint_fit", lowered)
    result = predicted(Generation({"prompt": (64,), "generate": (3,)}))
    assert len(result.failures) == 3
    assert all("refused as a defect" in each.reason for each in result.failures)


def test_weights_that_are_read_whole_bound_a_token(predicted):
    result = predicted(Generation({"prompt": (64,), "generate": (3,)}))
    model = result.models[-1].cut.model
    roof = Roofline(np.inf, bytes_per_s=1e6)
    table = model.tensors[model.layers[0].inputs[0]].nbytes
    assert model.layers[0].op == "Gather"
    assert roof.least_ms(model) == pytest.approx((model.weight_bytes - table) / 1e3, rel=0.01)
    assert replace(roof, cached_bytes=10**9).least_ms(model) == 0.0


def test_the_memory_is_measured_where_something_ran(predicted):
    result = predicted(Generation({"prompt": (64,), "generate": (1,)}))
    assert np.isinf(Roofline.of(result).bytes_per_s)
    ran = replace(result, ledger=replace(result.ledger, anew=frozenset({"m"})))
    assert 1e8 < Roofline.of(ran).bytes_per_s < 1e13
    more = replace(ran, phase_threads={"prompt": 4, "token": 1})
    assert Roofline.of(more).flops_per_s == 4 * Roofline.of(result).flops_per_s


def test_tasks_stand_for_lengths():
    (chat,) = Generation(of_task("chat")).workloads
    assert (chat.prompt, chat.generate) == (192, 256)
    assert of_task("code") == of_task("code-analysis")
    assert of_task(None) == {}
    with pytest.raises(DLBricksError, match="task cannot be 'poem'"):
        of_task("poem")


def test_models_belong_to_the_phases_of_an_answer(path):
    asked = Generation({"prompt": (8, 9), "generate": (3,)})
    loaded = read_asked([path], asked, LoadOptions())
    phases = {name: [i for i, each in enumerate(loaded.phases) if each == name] for name in PHASES}
    assert phases == {"prompt": [0, 3], "token": [1, 2, 4]}


def test_the_mean_over_depths_keeps_common_errors(predicted):
    (answer,) = predicted(Generation({"prompt": (64,), "generate": (101,)})).over_sizes.answers

    def width(estimate):
        low, high = interval(estimate.draws)
        return (high - low) / estimate.value

    # Points share nearly all bricks: independent errors would shrink by the root of three.
    narrowest = min(width(each.estimate) for each in answer.curve.values())
    assert width(answer.token.estimate) > 0.85 * narrowest


def test_points_share_bricks(predicted):
    result = predicted(Generation({"prompt": (64,), "generate": (101,)}))
    counts = [set(each.cut.counts) for each in result.models]
    assert len(set.union(*counts)) < sum(map(len, counts))


def test_results_stand_by_the_name_of_their_model(predicted):
    result = predicted(Generation({"prompt": (8, 10), "generate": (3,)}))
    (each,) = result.by_name.items()
    assert each == ("decoder", list(result.models))


def test_one_token_has_no_time_per_token(predicted):
    (answer,) = predicted(Generation({"prompt": (8,), "generate": (1,)})).over_sizes.answers
    assert (answer.token, answer.curve, answer.generation_rate.value) == (None, {}, None)
    assert answer.total == answer.first


def test_a_batch_counts_in_the_rates(predicted):
    (answer,) = predicted(
        Generation({"prompt": (8,), "generate": (3,), "batch": (4,)})
    ).over_sizes.answers
    assert answer.generation_rate.value == pytest.approx(4e3 / answer.token.estimate.value)


def test_a_sweep_is_a_grid(predicted):
    axes = {"sequence_length": (1, 4, 16), "batch": (1, 2)}
    result = predicted(Sweep(axes), dims={"past_sequence_length": 0})
    (curve,) = result.over_sizes.curves
    assert [each.code for each in result.ledger.notes].count("sizes-ran-before") == 1
    assert [tuple(point.sizes.values()) for point in curve.points] == [
        (1, 1), (1, 2), (4, 1), (4, 2), (16, 1), (16, 2)
    ]  # fmt: skip
    inputs = [point.result.cut.model.tensors["input_ids"].sizes for point in curve.points]
    assert inputs == [(1, 1), (2, 1), (1, 4), (2, 4), (1, 16), (2, 16)]
    values = np.array([point.result.estimate.value for point in curve.points])
    assert values[-1] == values.max()


def test_dimensions_that_vary_together_give_the_listed_points(predicted):
    axes = {"batch,sequence_length": ((1, 16), (2, 4)), "past_sequence_length": (0, 3)}
    (curve,) = predicted(Sweep(axes)).over_sizes.curves
    assert [tuple(point.sizes.values()) for point in curve.points] == [
        (1, 16, 0), (1, 16, 3), (2, 4, 0), (2, 4, 3)
    ]  # fmt: skip
    inputs = [point.result.cut.model.tensors["input_ids"].sizes for point in curve.points]
    assert inputs == [(1, 16), (1, 16), (2, 4), (2, 4)]


@pytest.mark.parametrize(
    ("axes", "lines"),
    [({"batch,sequence_length": ((1, 16), (2, 4))}, ["decoder, estimated"]),
     ({"batch": (1, 2), "sequence_length": (4, 8, 16)},
      ["decoder, batch 1, estimated", "decoder, batch 2, estimated"])],
    ids=["listed", "grid"],
)  # fmt: skip
def test_sizes_that_vary_together_are_one_line_of_the_plot(predicted, axes, lines):
    plot = sizes_plot(predicted(Sweep(axes), dims={"past_sequence_length": 0}))
    assert list(dict.fromkeys(re.findall(r">([^<>]*, estimated)<", plot))) == lines  # two widths


def test_prompts_and_answers_may_vary_together(predicted):
    answers = predicted(Generation({"prompt,generate": ((8, 3), (16, 2))})).over_sizes.answers
    assert [(a.workload.prompt, a.workload.generate) for a in answers] == [(8, 3), (16, 2)]


@pytest.mark.parametrize(
    ("asked", "options", "message"),
    [(lambda: Sweep({"width": (1,)}), {}, "leaves no dimension 'width' open"),
     (lambda: Sweep({"sequence_length": ()}), {}, "is not a list of sizes"),
     (lambda: Sweep({"batch,width": ((1, 2),)}), {}, "leaves no dimension 'width' open"),
     (lambda: Sweep({"batch,width": ((1, 2), (3,))}), {}, "batch,width=1x2,3 is not a list"),
     (lambda: Sweep({"batch,width": (1, 2)}), {}, "batch,width=1,2 is not a list of sizes"),
     (lambda: Sweep({"batch": ((1, -2),)}), {}, "batch=1x-2 is not a list of sizes"),
     (lambda: Sweep({"batch": ((),)}), {}, "is not a list of sizes"),
     (lambda: Sweep({"batch,width": ((1, 2),), "batch": (1,)}), {}, "sweep has batch twice"),
     (lambda: Generation({"prompt,width": ((4, 1),)}), {}, "a workload has no 'width'"),
     (lambda: Generation({"prompt,batch": ((4, 1), (5, 0))}), {}, "batch 0 is too small"),
     (lambda: Sweep({"batch": tuple(range(300))}), {}, "has 300 points"),
     (lambda: Generation({"width": (1,)}), {}, "a workload has no 'width'"),
     (lambda: Generation({"prompt": (0,)}), {}, "prompt 0 is too small"),
     (lambda: Generation({"batch": (0,)}), {}, "batch 0 is too small"),
     (lambda: Generation({"prompt": (4,)}), {"dims": {"past_sequence_length": 1}},
      "past_sequence_length varies in this request, so it cannot be 1"),
     (lambda: Generation({"prompt": (4,)}), {"dims": {"other": 1}}, "called 'other'")],
)  # fmt: skip
def test_wrong_requests_are_refused_in_a_line(path, asked, options, message):
    with pytest.raises(DLBricksError, match=message):
        read_asked([path], asked(), LoadOptions(**options))


def test_a_batch_of_a_fixed_size_is_not_taken_for_another(save_decoder, tmp_path):
    save_decoder(tmp_path / "one.onnx", (1, "sequence", "past"))
    asked = Generation({"prompt": (4,), "generate": (1,), "batch": (2,)})
    with pytest.raises(ModelError, match="batch of a fixed size, not 2"):
        read_asked([str(tmp_path / "one.onnx")], asked, LoadOptions())


def test_a_batch_that_the_user_fixes_by_its_dimension_is_named(save_decoder, tmp_path):
    save_decoder(tmp_path / "open.onnx", ("batch", "sequence", "past"))
    asked = Generation({"prompt": (4,), "generate": (1,)})
    with pytest.raises(ModelError, match="batch of a fixed size, not 1") as error:
        read_asked([str(tmp_path / "open.onnx")], asked, LoadOptions(dims={"batch": 2}))
    assert error.value.hint.startswith("Leave dims={'batch': 2} out")


def test_one_bad_model_does_not_end_the_others(path, save_decoder, tmp_path):
    save_decoder(tmp_path / "fixed.onnx", (1, 4, 4))
    specs = [str(tmp_path / "fixed.onnx"), path, "absent.onnx"]
    asked = Generation({"prompt": (4,), "generate": (1,)})
    loaded = load_asked(specs, asked, LoadOptions(), Observer())
    assert [each.name for each in loaded.every] == ["decoder"]
    assert [each.subject for each in loaded.failures] == [specs[0], specs[2]]


def test_models_of_one_name_keep_their_sizes_apart(path, save_decoder, tmp_path):
    other = tmp_path / "decoder.onnx"
    save_decoder(other)
    asked = Generation({"prompt": (4,), "generate": (2,)})
    names = [
        m.name for m in load_asked([path, str(other)], asked, LoadOptions(), Observer()).models
    ]
    assert names == [f"{path} [4 after 0]", f"{path} [1 after 4]", f"{other} [4 after 0]",
                     f"{other} [1 after 4]"]  # fmt: skip


def test_programs_give_models_that_they_have_read(path):
    raw = replace(read_model(onnx.load(path), name="own"), source="")
    asked = Generation({"prompt": (4,), "generate": (1,)})
    assert [m.name for m in read_asked([raw], asked, LoadOptions()).models] == ["own [4 after 0]"]


@pytest.mark.parametrize("all_scores", [False, True])
def test_scores_of_all_tokens_of_a_prompt_are_remarked_upon(
    save_decoder, tmp_path, predicted_of, all_scores
):
    path = tmp_path / "decoder.onnx"
    save_decoder(path, all_scores=all_scores)
    result = predicted_of(path, Generation({"prompt": (8, 1), "generate": (2,), "batch": (3,)}))
    codes = {each.cut.model.name: [n.code for n in each.notes] for each in result.models}
    scored = [name for name, found in codes.items() if "scores-of-all-tokens" in found]
    assert len(scored) == all_scores
    assert all("8 after 0" in name for name in scored)


def test_scores_of_a_model_from_a_configuration_are_stated_with_its_engine(save_decoder, tmp_path):
    save_decoder(tmp_path / "own.onnx", all_scores=True)
    asked = Generation({"prompt": (8,), "generate": (1,)})
    own = read_model(onnx.load(tmp_path / "own.onnx"), name="own")
    (model,) = read_asked([own], asked, LoadOptions()).models
    assert _of_scores(model, Workload(8, 1))
    assert not _of_scores(replace(model, configuration="{}"), Workload(8, 1))


def test_a_file_of_ones_own_runs_its_own_graph(predicted):
    result = predicted(Generation({"prompt": (8,), "generate": (2,)}))
    assert list(engines(result.over_sizes.answers, result)) == [
        "Figures are for onnxruntime on the graph of decoder as it is."
    ]


def test_a_sweep_over_the_batch_of_time_first_models_leaves_time_alone(tmp_path):
    """The batch is the second axis, and so the first may have another size."""
    text = """<ir_version: 10, opset_import: ["" : 17]>
    g (float[?,?,8] x, float[1,32,8] w, float[1,32,8] r) => (y)
    { y = LSTM<hidden_size=8>(x, w, r) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    options = LoadOptions(dims={"x.0": 5})
    loaded = read_asked([str(tmp_path / "m.onnx")], Sweep({"batch": (1, 3)}), options)
    (every,) = loaded.every
    assert [m.tensors["x"].sizes for m in every.models.values()] == [(5, 1, 8), (5, 3, 8)]


@pytest.mark.parametrize(
    ("fields", "longest"),
    [
        ({"max_position_embeddings": 8}, 8),
        ({"max_position_embeddings": 8, "rope_scaling": {"factor": 4.0}}, 32),
        ({"max_position_embeddings": 32, "rope_scaling":
          {"factor": 4.0, "original_max_position_embeddings": 8}}, 32),
        ({"max_position_embeddings": 8, "rope_parameters": {"full": {"factor": 2}}}, 8),
        ({"max_position_embeddings": 8, "rope_scaling": "odd"}, 8),
        ({"max_position_embeddings": 8, "is_encoder_decoder": True}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_texts_beyond_the_context_of_a_configuration_are_remarked_upon(path, fields, longest):
    asked = Generation({"prompt": (8,), "generate": (1,)})
    (model, *_) = read_asked([path], asked, LoadOptions()).models
    model = replace(model, configuration=json.dumps(fields))
    for tokens in (8, 31, 32):
        found = _of_context(model, Workload(tokens - 1, 1))
        assert bool(found) == (longest is not None and tokens > longest)
    for each in _of_context(model, Workload(100, 1)):
        assert each.values == {"tokens": 101, "longest": longest}
