"""``dlbricks compare outputs``: agreement, and everything that can prevent it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from io import StringIO

import numpy as np
import onnx
import pytest
from dlbricks_compare.agreement import relative_error
from dlbricks_compare.outputs_report import print_verification
from dlbricks_compare.verification import REFERENCE, Verdict, VerifyOptions, verify
from dlbricks_testing import cases
from rich.console import Console

from dlbricks_core.backends.host import TimerHost
from dlbricks_core.facts import Failure
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import Checked
from dlbricks_core.plugins import Plugin, load_object
from dlbricks_core.worker import WorkerProcess

pytestmark = pytest.mark.usefixtures("kept_workers")


def test_verify_shows_that_a_backend_agrees(dlbricks, save, read, tmp_path):
    pytest.importorskip("onnxruntime")
    ended = dlbricks("compare", "outputs", save("a", "Relu", "Softmax"), save("b", "Tanh"),
                     "--backends", "onnxruntime", "--json", tmp_path / "v.json")  # fmt: skip
    assert ended.status == 0, ended.err
    assert "2 of 2 agree" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    verdicts = read(tmp_path / "v.json")["verdicts"]
    assert [(v["model"], v["backend"], v["reference"]) for v in verdicts] == [
        ("a", "onnxruntime", REFERENCE), ("b", "onnxruntime", REFERENCE),
    ]  # fmt: skip
    assert all(v["agrees"] and 0 <= v["error"] < 1e-5 for v in verdicts)


def test_verify_allows_for_activations_that_operators_round(dlbricks, save, read, tmp_path):
    pytest.importorskip("onnxruntime")
    config = tmp_path / "four bits.json"
    config.write_text(json.dumps({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 192,
        "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 256,
    }), encoding="utf-8")  # fmt: skip
    sizes = ("--batch", 1, "--dim", "sequence=4", "--dim", "past=8")
    wanted = (f"llm:{config}", "--backends", "onnxruntime", *sizes, "--json", tmp_path / "v.json")
    ended = dlbricks("compare", "outputs", *wanted, "--dtype", "int4")
    assert ended.status == 0, ended.out
    assert "may round its inputs to few bits (accuracy_level)" in " ".join(ended.out.split())
    (verdict,) = read(tmp_path / "v.json")["verdicts"]
    assert verdict["agrees"]
    assert verdict["allowance"] == pytest.approx(12 / 128)
    assert "differ by 9.4% more" in verdict["remarks"][0]
    assert dlbricks("compare", "outputs", *wanted).status == 0
    (verdict,) = read(tmp_path / "v.json")["verdicts"]
    assert (verdict["allowance"], verdict["remarks"]) == (0, [])


def test_verify_needs_something_to_compare_with(dlbricks, save, read, tmp_path):
    pytest.importorskip("onnxruntime")
    ended = dlbricks("compare", "outputs", save("a", "Relu"), "--backends", "onnxruntime",
                     "--reference-timeout", 0, "--json", tmp_path / "v.json")  # fmt: skip
    assert ended.status == 3
    assert "nothing to compare" in read(tmp_path / "v.json")["verdicts"][0]["failure"]


def test_verify_without_a_model_is_wrong_usage(dlbricks):
    assert dlbricks("compare", "outputs", "--backends", "onnxruntime").status == 2


@pytest.fixture
def wrong(faulty, monkeypatch):
    """Makes the faulty backend, one that is wrong by a factor and a slow one known by name."""
    plugins = {
        name: Plugin("backend", name, f"faulty_backend:{cls}", "tests", "1",
                     getattr(faulty, cls))
        for name, cls in (("faulty", "FaultyBackend"), ("wrong", "WrongBackend"),
                          ("slow", "SlowBackend"))
    }  # fmt: skip
    monkeypatch.setattr(
        "dlbricks_core.measure.request.find", lambda kind, name, base: plugins[name]
    )


@pytest.fixture
def model(residual):
    return residual()


CLIPPED = """(float[5, 2, 4] x, float[1, 12, 4] w1, float[1, 12, 3] w2) => (y)
    { y = LSTM <hidden_size = 3, clip = 0.05> (x, w1, w2) }"""


#: The package has a function of the module's name.
MODULE = sys.modules["dlbricks_compare.verification"]


class Here:
    """Stands for a worker without a process, for backends that neither crash nor hang."""

    def __init__(self, target, settings, seed):
        self._target, self._seed, self._host = target, seed, TimerHost()
        self._host.start(target, settings, None, None, 0, warm=False, keeps_memory=False)

    @classmethod
    def of(cls, request):
        return cls(request.plugin.target, request.settings, request.seed)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def check(self, models):
        return Checked(self._host.check(self._target, models), {})

    def infer(self, model):
        return self._host.infer(model, self._seed)


class ReferenceHere:
    """The same for the ONNX reference evaluator."""

    def __init__(self, service):
        self._host = load_object(service)()

    def call(self, method, *arguments, timeout):
        return getattr(self._host, method)(*arguments)

    def close(self):
        pass


@pytest.fixture
def here(wrong, monkeypatch):
    """Verifies models in this process."""
    monkeypatch.setattr(MODULE, "BackendWorker", Here)
    monkeypatch.setattr(MODULE, "WorkerProcess", ReferenceHere)


@pytest.fixture(scope="module")
def kept():
    """Verdicts so far."""
    return {}


@pytest.fixture
def verified(here, model, builder, kept):
    """Verdicts of some backends on three models, by the model's name; found once for all tests."""

    def run(*names):
        if names not in kept:
            b = builder()
            large = b.add("Mul", b.input, b.weight(1, value=np.full(1, 9e4, dtype=np.float32)))
            b.add("Softmax", large, axis=1)
            models = [model, cases.build(CLIPPED, "clipped").model, b.model(name="onehot")]
            found = kept[names] = {}
            for verdict in verify(models, options(*names)):
                found.setdefault(verdict.model, []).append(verdict)
        return kept[names]

    return run


def options(*names):
    return [Request.of(name, threads=1) for name in names]


def test_verify_finds_a_wrong_backend(verified, model):
    exact, off = verified("faulty", "wrong")["residual"]
    assert (exact.agrees, exact.error, exact.reference) == (True, 0.0, REFERENCE)
    assert not off.agrees
    assert off.error > 1e-3
    (loose,) = verify([model], options("wrong"), VerifyOptions(tolerance=0.1))
    assert loose.agrees


def test_the_first_backend_is_the_reference(here, model):
    exact, off = verify([model], options("faulty", "wrong"), VerifyOptions(reference_timeout_s=0))
    assert (exact.reference, exact.error) == ("faulty", 0.0)
    assert (off.reference, off.agrees) == ("faulty", False)


def test_backends_that_agree_with_each_other_dispute_the_reference(verified):
    first, second = verified("wrong", "wrong")["residual"]
    assert (first.reference, first.error, second.error) == ("wrong", 0.0, 0.0)
    assert first.remarks == (
        "the backends agree with each other; the onnx reference does not",
    )  # fmt: skip
    assert first.disputed
    assert not first.agrees


def test_the_reference_counts_if_a_backend_agrees_with_it(verified):
    *off, exact = verified("wrong", "wrong", "faulty")["residual"]
    assert {verdict.reference for verdict in (*off, exact)} == {REFERENCE}
    assert [verdict.agrees for verdict in (*off, exact)] == [False, False, True]
    assert exact.remarks == ()


def test_a_majority_names_who_differs(here, model):
    found = verify(
        [model], options("wrong", "faulty", "faulty"), VerifyOptions(reference_timeout_s=0)
    )
    assert [verdict.agrees for verdict in found] == [False, True, True]
    assert [verdict.reference for verdict in found] == ["faulty"] * 3
    assert found[0].remarks == ("faulty and faulty agree with each other; wrong does not",)


KNOWN = "known to be wrong in the onnx reference: LSTM: clip is ignored"


def test_a_known_defect_of_the_reference_is_not_held_against_backends(verified):
    found = verified("wrong", "wrong")["clipped"]
    assert all(verdict.agrees for verdict in found)
    assert found[0].remarks == (
        "the backends agree with each other; the onnx reference does not", KNOWN,
    )  # fmt: skip
    stream = StringIO()
    print_verification(Console(file=stream, width=80), found)
    printed = " ".join(stream.getvalue().split())
    assert [printed.count(remark) for remark in found[0].remarks] == [1, 1]


def test_a_backend_with_the_same_defect_does_not_make_the_reference_right(verified):
    *right, same = verified("wrong", "wrong", "faulty")["clipped"]
    assert all(verdict.agrees for verdict in right)
    assert (same.agrees, same.reference) == (False, "wrong")
    assert same.remarks == (
        "wrong and wrong agree with each other; faulty and the onnx reference do not", KNOWN,
    )  # fmt: skip


def test_a_single_backend_is_not_judged_by_a_wrong_reference(verified):
    found = verified("wrong")
    (alone,), (other,) = found["clipped"], found["residual"]
    assert "nothing to compare" in alone.failure
    assert alone.remarks == (KNOWN,)
    assert (other.failure, other.reference, other.remarks) == ("", REFERENCE, ())


def test_verify_tells_why_there_is_no_reference(wrong, model):
    found = verify([model], options("faulty", "faulty"), VerifyOptions(reference_timeout_s=1e-3))
    assert all(verdict.agrees for verdict in found)
    (remark,) = found[0].remarks
    assert remark == "the onnx reference has no results: no answer within 0.001 s"


def test_references_share_a_process_and_one_that_takes_too_long_ends_it(wrong, model, monkeypatch):
    started, limits = [], iter([20.0, 20.0, 1e-3, 20.0])

    class Counted(WorkerProcess):
        def __init__(self, service):
            super().__init__(service)
            started.append(service)

        def call(self, method, *arguments, timeout=None):
            return super().call(method, *arguments, timeout=next(limits))

    monkeypatch.setattr(MODULE, "WorkerProcess", Counted)
    found = verify([model] * 4, options("faulty"))
    assert [each.reference for each in found] == [REFERENCE, REFERENCE, "", REFERENCE]
    assert len(started) == 2


def test_a_failure_of_the_reference_is_reported(wrong, model, monkeypatch):
    monkeypatch.setattr(MODULE, "REFERENCE_HOST", "builtins:object")
    found = verify([model], options("faulty", "faulty"))
    assert all(verdict.agrees for verdict in found)
    failure = "AttributeError: 'object' object has no attribute 'outputs'"
    assert [(v.reference_failure, v.remarks) for v in found] == [(failure, ())] * 2
    stream = StringIO()
    print_verification(Console(file=stream, width=120), found)
    assert stream.getvalue().count(f"Failed: {model.name} on the onnx reference: {failure}") == 1


def test_a_failure_of_the_reference_shows_in_the_exit_status(
    dlbricks, save, read, twin, monkeypatch
):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(MODULE, "REFERENCE_HOST", "builtins:object")
    asked = "compare", "outputs", save("chain", "Relu"), "--backends", "onnxruntime,twin"
    done = dlbricks(*asked, "--threads", 1, "--json", "v.json")
    assert done.status == 3
    assert {v["agrees"] for v in read("v.json")["verdicts"]} == {True}


@pytest.fixture
def judged(wrong, model, builder, kept):
    """Verdicts on odd models, by name; each is followed by a usual one, which has to agree."""

    def odd(name, *operators):
        b = builder()
        x = b.input
        for operator, attributes in operators:
            x = b.add(operator, x, **attributes)
        return b.model(name=name)

    if "odd" not in kept:
        b = builder()
        zeros = b.add("Mul", b.input, b.weight(1, value=np.zeros(1, dtype=np.float32)))
        relu, lacking = ("Relu", {}), ("Unsupported", {})
        maps = odd("maps", relu)
        opaque = replace(maps.layers[0], opaque="a result that is no tensor")
        models = [
            replace(maps, layers=(opaque,)),
            odd("odd", relu, ("RaiseCheck", {})),
            odd("lacking", relu, lacking, lacking),
            odd("kinds", *(("Unsupported", {"axis": axis}) for axis in (1, 2, 3))),
            odd("crash", relu, ("CrashCheck", {})),
            b.model(zeros, name="zeros"),
        ]
        found = verify([each for odd in models for each in (odd, model)], options("faulty"))
        assert [verdict.agrees for verdict in found[1::2]] == [True] * len(models)
        kept["odd"] = {verdict.model: verdict for verdict in found[::2]}
    return kept["odd"]


def test_verify_names_layers_that_cannot_run_alone(judged):
    assert [(x.part, x.reason) for x in judged["maps"].unsupported] == [
        ("Relu", "a result that is no tensor")
    ]


def test_a_failing_check_does_not_affect_other_models(judged):
    found = judged["odd"]
    assert (found.unsupported, found.agrees) == ((), False)
    assert "not today" in found.failure


def test_a_model_of_text_does_not_affect_other_models(dlbricks, save, tmp_path, read):
    pytest.importorskip("onnxruntime")
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
    labels (float[4, 3] x) => (string[4] label, float[4, 2] p) {
        label, p = ai.onnx.ml.LinearClassifier <coefficients = [0.1, -0.2, 0.3, 0.4, 0.5, -0.6],
            intercepts = [0.1, 0.2], classlabels_strings = ["ham", "spam"]> (x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "labels.onnx")
    done = dlbricks(
        "compare",
        "outputs",
        "labels.onnx",
        save("good", "Relu"),
        "--backends",
        "onnxruntime",
        "--json",
        "v.json",
    )
    labels, good = read("v.json")["verdicts"]
    assert (done.status, labels["agrees"], good["agrees"]) == (3, False, True)
    assert labels["failure"] or labels["unsupported"]


def test_verify_reports_each_unsupported_layer(judged):
    found = judged["lacking"]
    assert [(x.part, x.layers) for x in found.unsupported] == [("Unsupported", 2)]
    assert "no counterpart" in found.unsupported[0].reason
    assert not found.agrees


def test_each_unsupported_operator_is_named_once(judged):
    found = judged["kinds"]
    assert [(x.part, x.layers) for x in found.unsupported] == [("Unsupported", 3)]


def test_an_operator_that_its_reason_names_is_not_named_twice():
    refused = Failure("net", "LpPool: no counterpart", "check", "LpPool", "jax", 2)
    stream = StringIO()
    verdict = Verdict("net", "jax", unsupported=(refused,))
    print_verification(Console(file=stream, width=120), [verdict])
    assert "Unsupported: net on jax: LpPool (x2): no counterpart\n" in stream.getvalue()


def test_verify_survives_a_crash(judged):
    assert "SIGSEGV" in judged["crash"].failure


def test_verify_runs_a_model_no_longer_than_its_limit(wrong, faulty, model):
    (slow,) = options("slow")
    (verdict,) = verify([model], [replace(slow, timeout_s=3 * faulty.SLOW_S)])
    assert verdict.agrees, verdict.failure
    (verdict,) = verify([model], [replace(slow, timeout_s=faulty.SLOW_S / 2)])
    assert "no answer within" in verdict.failure


def test_verify_does_not_take_constant_outputs_for_agreement(judged):
    found = judged["zeros"]
    assert (found.error, found.varied, found.agrees) == (0.0, False, False)


def test_verify_looks_behind_a_saturated_softmax(verified):
    (verdict,) = verified("wrong")["onehot"]
    # The error is a hundredth of numbers that spread about as far as they are large.
    assert 0.005 < verdict.error < 0.02


@pytest.mark.parametrize(
    ("actual", "expected", "error"),
    [
        ([1.0, 3.0], [1.0, 3.0], 0.0),
        ([1.0, 3.2], [1.0, 3.0], 0.1),
        ([1000.0, 1001.1], [1000.0, 1001.0], 0.1 / 1.0),
        ([np.inf, 1.0, 3.0], [np.inf, 1.0, 3.0], 0.0),
        ([1.0, 1.0, 3.0], [np.inf, 1.0, 3.0], np.inf),
        ([np.nan, 1.0, 3.0], [5.0, 1.0, 3.0], np.inf),
        ([1.0], [1.0, 3.0], np.inf),
        ([2.2], [2.0], 0.1),
    ],
)
def test_relative_error_is_relative_to_the_spread(actual, expected, error):
    found = relative_error(np.array(actual), np.array(expected))
    assert found == pytest.approx(error, rel=0.1)
