"""Whether backends compute the same from the same model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dlbricks_core.backends import Array
from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.errors import DLBricksError, UnsupportedError
from dlbricks_core.ir import Model
from dlbricks_core.measure.bench import Bench, BenchSettings
from dlbricks_core.worker import WorkerProcess
from dlbricks_core.workflows.context import Context, MeasureOptions
from dlbricks_core.workflows.observer import Observer

#: What the ONNX reference evaluator is called where backends have their names.
REFERENCE = "onnx reference"

#: Operators whose results can hide a difference in what they read: with random weights a
#: classifier's probabilities are nearly one and zero.
_SATURATING = frozenset({"ArgMax", "HardSigmoid", "LogSoftmax", "Sigmoid", "Softmax", "Tanh"})

#: Outputs that vary less than this, relative to their size, show nothing.
_LEAST_SPREAD = 1e-4


@dataclass(frozen=True)
class VerifyOptions:
    """How to compare.

    Attributes:
        seed: Of weights and inputs.
        tolerance: Largest relative error that counts as agreement.
        reference_s: Longest time that the ONNX reference evaluator may take for a model;
            the first backend is the reference where it takes longer. 0 leaves it out.
    """

    seed: int = 0
    tolerance: float = 1e-3
    reference_s: float = 20.0


@dataclass(frozen=True)
class Lacking:
    """A kind of layer that a backend does not support.

    Attributes:
        operator: Its type.
        layers: How many of them the model has.
        reason: Why.
    """

    operator: str
    layers: int
    reason: str


@dataclass(frozen=True)
class Verdict:
    """What a backend made of a model.

    Attributes:
        model: Name of the model.
        backend: Name of the backend.
        reference: What it was compared with; empty if there was nothing.
        error: Largest relative error over all outputs; ``None`` if it was not compared.
        tolerance: Largest that counts as agreement.
        varied: Whether all outputs vary, so that the comparison shows something.
        unsupported: What kept the backend from running the model.
        failure: What went wrong otherwise.
    """

    model: str
    backend: str
    reference: str = ""
    error: float | None = None
    tolerance: float = 1e-3
    varied: bool = False
    unsupported: tuple[Lacking, ...] = ()
    failure: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the backend ran the model and agreed on outputs that vary."""
        return self.error is not None and self.error <= self.tolerance and self.varied


def verify(
    models: Sequence[Model],
    backends: Sequence[MeasureOptions],
    options: VerifyOptions | None = None,
    observer: Observer | None = None,
) -> list[Verdict]:
    """Runs whole models on several backends, on the same values, and compares the outputs.

    What a last Softmax and the like read is compared as well.

    Args:
        models: In canonical form.
        backends: Each with its threads and options; runs in a process of its own.
        options: How to compare.
        observer: Told of progress.

    Returns:
        A verdict for each model on each backend, model by model.

    Raises:
        PluginError: If a backend is unknown or broken.

    Example:
        >>> verify([model], [MeasureOptions("mxnet"), MeasureOptions("pytorch")])
    """
    options = options or VerifyOptions()
    observer = observer or Observer()
    contexts = [Context.of(backend) for backend in backends]
    bricks = BrickSet.of(map(_with_probes, models))
    observer.stage("Evaluating references", len(models))
    references = [_reference(cut, options, observer) for cut in bricks.models]
    attempts = []
    for backend, context in zip(backends, contexts, strict=True):
        observer.stage(f"Running {context.backend.name}", len(models))
        settings = BenchSettings(context.settings, options.seed, backend.timeout_s)
        with Bench(context.plugin.target, context.backend, settings) as bench:
            attempts.append(_attempts(bricks, context.backend.name, bench, observer))
    return [
        verdict
        for model, reference in enumerate(references)
        for verdict in _compared([each[model] for each in attempts], reference, options)
    ]


def _with_probes(model: Model) -> Model:
    """The model with what its last, saturating layers read as outputs of its own."""
    last = [model.layers[model.producers[o]] for o in model.outputs if o in model.producers]
    probes = [
        layer.inputs[0]
        for layer in last
        if layer.op in _SATURATING and layer.inputs[0] in model.producers
    ]
    return replace(model, outputs=tuple(dict.fromkeys((*model.outputs, *probes))))


@dataclass(frozen=True)
class _Attempt:
    """A verdict before the comparison, and the outputs to compare."""

    verdict: Verdict
    outputs: Mapping[str, Array] | None = None


def _reference(
    cut: CutModel, options: VerifyOptions, observer: Observer
) -> Mapping[str, Array] | None:
    """What the reference evaluator computes; ``None`` where it cannot, or takes too long."""
    observer.advance(cut.model.name)
    if options.reference_s <= 0:
        return None
    with WorkerProcess("dlbricks_core.backends.reference:ReferenceHost") as worker:
        try:
            results: Mapping[str, Array] = worker.call(
                "outputs", cut.whole.model, options.seed, timeout=options.reference_s
            )
        except DLBricksError:
            return None
    return results


def _attempts(bricks: BrickSet, backend: str, bench: Bench, observer: Observer) -> list[_Attempt]:
    reasons = bench.unsupported({s: b.model for s, b in bricks.bricks.items() if not b.opaque})
    attempts = []
    for cut in bricks.models:
        verdict = Verdict(cut.model.name, backend, unsupported=_lacking(cut, reasons))
        attempts.append(_Attempt(verdict) if verdict.unsupported else _run(cut, verdict, bench))
        observer.advance(cut.model.name)
    return attempts


def _lacking(cut: CutModel, reasons: Mapping[str, str]) -> tuple[Lacking, ...]:
    layers: Counter[tuple[str, str]] = Counter()
    for signature, count in cut.counts.items():
        if signature in reasons:
            layers[cut.operators(signature)[0], reasons[signature]] += count
    return tuple(Lacking(operator, count, why) for (operator, why), count in layers.items())


def _run(cut: CutModel, verdict: Verdict, bench: Bench) -> _Attempt:
    try:
        outputs = bench.infer(cut.whole.model)
    except UnsupportedError as error:
        lacking = Lacking("", 0, error.message)
        return _Attempt(replace(verdict, unsupported=(lacking,)))
    except DLBricksError as error:
        return _Attempt(replace(verdict, failure=error.message))
    return _Attempt(verdict, outputs)


def _compared(
    attempts: Sequence[_Attempt], reference: Mapping[str, Array] | None, options: VerifyOptions
) -> list[Verdict]:
    """Verdicts on one model."""
    name = REFERENCE
    ran = [each for each in attempts if each.outputs is not None]
    if reference is None and len(ran) > 1:
        name, reference = ran[0].verdict.backend, ran[0].outputs
    verdicts = []
    for attempt in attempts:
        verdict = replace(attempt.verdict, tolerance=options.tolerance)
        if attempt.outputs is not None and reference is not None:
            pairs = [(attempt.outputs[key], reference[key]) for key in reference]
            verdict = replace(
                verdict,
                reference=name,
                error=max((relative_error(*pair) for pair in pairs), default=0.0),
                varied=all(_varies(expected) for _, expected in pairs),
            )
        elif attempt.outputs is not None:
            verdict = replace(verdict, failure="there is nothing to compare its outputs with")
        verdicts.append(verdict)
    return verdicts


def relative_error(actual: Array, expected: Array) -> float:
    """Largest error of an element, relative to how far the elements lie from their mean.

    That is stricter than an error relative to the elements themselves where a large common
    part would hide a difference. Infinite where shapes, NaNs or infinities differ.
    """
    if actual.shape != expected.shape:
        return np.inf
    got, want = _numbers(actual), _numbers(expected)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return np.inf
    got, want = got[finite], want[finite]
    if not want.size:
        return 0.0
    if want.size > 1 and _varies(expected):
        scale = np.abs(want - want.mean()) + want.std()
    else:
        scale = np.maximum(np.abs(want), np.finfo(np.float32).tiny)
    error = np.abs(got - want) / scale
    return float(error.max()) if np.isfinite(error).all() else np.inf


def _varies(values: Array) -> bool:
    """Whether there is something to see; a single number always is."""
    numbers = _numbers(values)
    finite = numbers[np.isfinite(numbers)]
    if finite.size < 2:
        return True
    return bool(finite.std() > _LEAST_SPREAD * np.abs(finite).max())


def _numbers(values: Array) -> Array:
    wide = np.complex128 if values.dtype.kind == "c" else np.float64
    return values.astype(wide).ravel()
