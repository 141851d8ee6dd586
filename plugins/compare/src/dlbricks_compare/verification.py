"""Verifies that backends compute the same results from the same model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from dlbricks_compare.agreement import (
    Precisions,
    Results,
    all_vary,
    allowance,
    difference,
    majority,
)
from dlbricks_compare.reference import known_defects
from dlbricks_compare.rounding import (
    precisions,
    random_outputs,
    ranked_outputs,
    rounding_layers,
)
from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.errors import DLBricksError, UnsupportedError
from dlbricks_core.facts import Failure
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.operators import standing_for
from dlbricks_core.progress import Observer
from dlbricks_core.worker import WorkerError, WorkerProcess, WorkerTimeout

#: Name of the ONNX reference evaluator, in place of a backend's name.
REFERENCE = "onnx reference"

REFERENCE_HOST = "dlbricks_compare.reference:ReferenceHost"


@dataclass(frozen=True)
class VerifyOptions:
    """Options of a comparison."""

    seed: int = 0  #: Seed of weights and inputs.
    tolerance: float = 1e-3  #: Maximum relative error that counts as agreement.
    #: Maximum seconds of the ONNX reference evaluator for a model. If it takes longer, the first
    #: backend is the reference. 0 leaves the evaluator out.
    reference_timeout_s: float = 20.0


@dataclass(frozen=True)
class Verdict:
    """Verdict on a backend's results for a model."""

    model: str  #: Name of the model.
    backend: str  #: Name of the backend.
    reference: str = ""  #: Name of the reference; empty if there was none.
    #: Maximum relative error over all outputs; ``None`` without a comparison.
    error: float | None = None
    tolerance: float = 1e-3  #: Maximum relative error that counts as agreement.
    #: Allowed relative error of outputs behind layers that round their inputs to fewer bits than
    #: the type has; 0 without such layers.
    allowance: float = 0.0
    varied: bool = False  #: Whether all outputs vary, so that the comparison is meaningful.
    unsupported: tuple[Failure, ...] = ()  #: Layers that the backend does not support.
    failure: str = ""  #: Reason of any other failure.
    #: Remarks on the comparison, the same for all backends of a model: which backends agree, and
    #: defects or timeouts of the ONNX reference.
    remarks: tuple[str, ...] = ()
    #: Why the ONNX reference failed, the same for all backends of a model.
    reference_failure: str = ""
    #: Whether the backends agree with each other but not with the ONNX reference, which has no
    #: known defect.
    disputed: bool = False

    @property
    def agrees(self) -> bool:
        """Whether the backend ran the model and agreed on varying outputs, without dispute."""
        near = self.error is not None and self.error <= self.tolerance
        return near and self.varied and not self.disputed


def verify(
    models: Sequence[CanonicalModel],
    requests: Sequence[Request],
    options: VerifyOptions | None = None,
    observer: Observer | None = None,
) -> list[Verdict]:
    """Runs whole models on several backends with the same values, and compares the outputs.

    The inputs of a final Softmax or similar layer are compared as well.

    Args:
        models: Models in canonical form.
        requests: A request for each backend, which runs in a process of its own.
        options: Options of the comparison.
        observer: Receives the progress.

    Returns:
        A verdict for each model on each backend, model by model.

    Raises:
        PluginError: If a backend is unknown or broken.

    Example:
        >>> verify([model], [Request.of("mxnet"), Request.of("pytorch")])
    """
    options = options or VerifyOptions()
    observer = observer or Observer()
    bricks = BrickSet.of(map(_with_taps, models))
    observer.stage("Evaluating references", len(models))
    with _References(options) as evaluator:
        references = [evaluator.of(cut, observer) for cut in bricks.models]
    attempts = []
    for request in requests:
        observer.stage(f"Running {request.backend.name}", len(models))
        with BackendWorker.of(request) as bench:
            attempts.append(_attempts(bricks, request.backend.name, bench, observer))
    return [
        verdict
        for model, (cut, reference) in enumerate(zip(bricks.models, references, strict=True))
        for verdict in _compared(
            [each[model] for each in attempts], reference, _Measure.of(cut, options)
        )
    ]


def _with_taps(model: CanonicalModel) -> CanonicalModel:
    """The model with the inputs of its last, saturating layers as additional outputs."""
    last = [model.layers[model.producers[o]] for o in model.outputs if o in model.producers]
    taps = [
        layer.inputs[0]
        for layer in last
        if standing_for(layer).saturates and layer.inputs[0] in model.producers
    ]
    return replace(model, outputs=tuple(dict.fromkeys((*model.outputs, *taps))))


@dataclass(frozen=True)
class _Attempt:
    """A verdict before the comparison, and the results to compare."""

    verdict: Verdict
    results: Results | None = None


@dataclass(frozen=True)
class _Reference:
    """Results of the ONNX reference evaluator for a model."""

    results: Results | None = None  #: Outputs by name; ``None`` if there are none.
    limit: str = ""  #: The user's limit that it exceeded; empty if it exceeded none.
    failure: str = ""  #: Reason of a failure; empty if there was none.
    defects: tuple[str, ...] = ()  #: Known defects of the results.


class _References:
    """The ONNX reference evaluator in a process of its own, and in another after a loss."""

    def __init__(self, options: VerifyOptions) -> None:
        self._options = options
        self._worker: WorkerProcess | None = None

    def of(self, cut: CutModel, observer: Observer) -> _Reference:
        """Results of the evaluator for a model."""
        observer.advance(cut.model.name)
        if self._options.reference_timeout_s <= 0 or any(
            layer.opaque for layer in cut.model.layers
        ):
            return _Reference()
        defects = known_defects(cut.model)
        try:
            return _Reference(self._results(cut.whole.model), defects=defects)
        except WorkerTimeout as error:
            return _Reference(limit=error.message, defects=defects)
        except DLBricksError as error:
            return _Reference(failure=error.message, defects=defects)

    def _results(self, model: CanonicalModel) -> Results:
        self._worker = self._worker or WorkerProcess(REFERENCE_HOST)
        asked = model, self._options.seed
        try:
            found: Results = self._worker.call(
                "outputs", *asked, timeout=self._options.reference_timeout_s
            )
        except WorkerError:  # it has ended
            self._close()
            raise
        return found

    def _close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


def _attempts(
    bricks: BrickSet, backend: str, bench: BackendWorker, observer: Observer
) -> list[_Attempt]:
    opaque = {s: b.opaque for s, b in bricks.bricks.items() if b.opaque}
    known = {s: b.model for s, b in bricks.bricks.items() if not b.opaque}
    found = bench.check(known)
    attempts = []
    for cut in bricks.models:
        verdict = Verdict(
            cut.model.name,
            backend,
            unsupported=_unsupported(cut, backend, {**opaque, **found.unsupported}),
            failure="; ".join(
                dict.fromkeys(found.failed[s] for s in cut.counts if s in found.failed)
            ),
        )
        stopped = verdict.unsupported or verdict.failure
        attempts.append(_Attempt(verdict) if stopped else _run(cut, verdict, bench))
        observer.advance(cut.model.name)
    return attempts


def _unsupported(cut: CutModel, backend: str, reasons: Mapping[str, str]) -> tuple[Failure, ...]:
    """Each kind of layer that a backend does not support."""
    layers: Counter[tuple[str, str]] = Counter()
    for signature, count in cut.counts.items():
        if signature in reasons:
            layers[cut.operators(signature)[0], reasons[signature]] += count
    return tuple(
        Failure(cut.model.name, why, "check", operator, backend, count)
        for (operator, why), count in layers.items()
    )


def _run(cut: CutModel, verdict: Verdict, bench: BackendWorker) -> _Attempt:
    try:
        results = bench.infer(cut.whole.model)
    except UnsupportedError as error:
        refused = Failure(cut.model.name, error.message, "check", backend=verdict.backend, layers=0)
        return _Attempt(replace(verdict, unsupported=(refused,)))
    except DLBricksError as error:
        return _Attempt(replace(verdict, failure=error.message))
    return _Attempt(verdict, results)


@dataclass(frozen=True)
class _Measure:
    """How the results of a model are compared."""

    tolerance: float  #: Maximum relative error that counts as agreement.
    precisions: Precisions  #: Precision of outputs that is lower than that of their types.
    remarks: tuple[str, ...] = ()  #: Remarks on these precisions, and on random outputs.
    #: Outputs that follow from random numbers, which are not compared.
    random: frozenset[str] = frozenset()
    #: The file's names of outputs that follow from places of values in their order.
    ranked: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, cut: CutModel, options: VerifyOptions) -> Self:
        model, names = cut.whole.model, _file_names(cut)
        found = precisions(model)
        remarks = tuple(
            f"{op}{f' (x{count})' if count > 1 else ''} {how}: outputs behind it may differ by "
            f"{allowance(max(found.values())):.1%} more"
            for (op, how), count in rounding_layers(model).items()
            if found
        )
        random = random_outputs(model)
        drawn = tuple(
            f"{names[name]} follows from random numbers ({op}), and is not compared"
            for name, op in random.items()
        )
        return cls(
            options.tolerance,
            found,
            (*remarks, *drawn),
            frozenset(random),
            {name: names[name] for name in sorted(ranked_outputs(model))},
        )

    @property
    def allowance(self) -> float:
        """Relative error that counts as none, of the output where it is greatest."""
        return allowance(max(self.precisions.values(), default=0.0))

    def error(self, actual: Results, expected: Results) -> float:
        """Maximum relative error over all outputs."""
        return difference(actual, self._steady(expected), self.precisions)

    def alike(self, results: Sequence[Results]) -> tuple[int, ...]:
        """Indices of a majority of results that agree with one another."""
        steady = [self._steady(each) for each in results]
        return majority(steady, self.tolerance, self.precisions)

    def ties(self, actual: Results, expected: Results) -> tuple[str, ...]:
        """A remark on each output that differs, where equal values may be the reason."""
        return tuple(
            f"{text} follows from the order of values (TopK): of equal values, each framework "
            "may take another first"
            for name, text in self.ranked.items()
            if name in expected and name not in self.random
            if self.error({name: actual[name]}, {name: expected[name]}) > self.tolerance
        )

    def _steady(self, results: Results) -> Results:
        return {name: each for name, each in results.items() if name not in self.random}


def _file_names(cut: CutModel) -> Mapping[str, str]:
    """Names of a model's results in its file, by those of the model as one brick."""
    pairs = zip(cut.whole.model.layers, cut.model.layers, strict=True)
    return {new: old for a, b in pairs for new, old in zip(a.outputs, b.outputs, strict=True)}


@dataclass(frozen=True)
class _Standard:
    """Reference for the results of a model."""

    name: str = ""  #: Name of the backend or of the ONNX reference; empty if there is no reference.
    results: Results = field(default_factory=dict)  #: Outputs of the reference.
    remarks: tuple[str, ...] = ()  #: Remarks on its choice.
    disputed: bool = False  #: As in :class:`Verdict`.


def _compared(
    attempts: Sequence[_Attempt], reference: _Reference, measure: _Measure
) -> list[Verdict]:
    ran = [(a.verdict.backend, a.results) for a in attempts if a.results is not None]
    standard = _standard(ran, reference, measure)
    ties = [each for _, results in ran for each in measure.ties(results, standard.results)]
    return [
        replace(
            _judged(attempt, standard, measure),
            remarks=(*measure.remarks, *standard.remarks, *dict.fromkeys(ties)),
            reference_failure=reference.failure,
            disputed=standard.disputed,
        )
        for attempt in attempts
    ]


def _judged(attempt: _Attempt, standard: _Standard, measure: _Measure) -> Verdict:
    verdict = replace(attempt.verdict, tolerance=measure.tolerance, allowance=measure.allowance)
    if attempt.results is None:
        return verdict
    if not standard.name:
        return replace(verdict, failure="there is nothing to compare its outputs with")
    return replace(
        verdict,
        reference=standard.name,
        error=measure.error(attempt.results, standard.results),
        varied=all_vary(standard.results),
    )


def _standard(
    ran: Sequence[tuple[str, Results]], reference: _Reference, measure: _Measure
) -> _Standard:
    """The ONNX reference, unless the backends agree with each other but not with it.

    A known defect of the ONNX reference rules it out, even if a backend shares the defect.
    """
    followers = {
        i
        for i, (_, results) in enumerate(ran)
        if reference.results is not None
        and measure.error(results, reference.results) <= measure.tolerance
    }
    alike: Sequence[int] = ()
    if len(followers) < len(ran):
        alike = measure.alike([results for _, results in ran])
    trusted = followers & {*alike} if alike and reference.defects else followers
    if reference.results is not None and (trusted or not (alike or reference.defects)):
        return _Standard(REFERENCE, reference.results)
    remarks = _remarks([name for name, _ in ran], alike, reference)
    if not alike and len(ran) < 2:
        return _Standard(remarks=remarks)
    name, results = ran[alike[0] if alike else 0]
    disputed = reference.results is not None and not reference.defects
    return _Standard(name, results, remarks, disputed)


def _remarks(names: Sequence[str], alike: Sequence[int], reference: _Reference) -> tuple[str, ...]:
    """Remarks on which backends agree, and on the ONNX reference."""
    remarks = []
    wrong = [f"the {REFERENCE}"] if reference.results is not None else []
    others = [name for i, name in enumerate(names) if i not in alike] + wrong
    if alike and others:
        every = len(alike) == len(names)
        group = "the backends" if every else " and ".join(names[i] for i in alike)
        verb = "does" if len(others) == 1 else "do"
        remarks.append(f"{group} agree with each other; {' and '.join(others)} {verb} not")
    if reference.limit:
        remarks.append(f"the {REFERENCE} has no results: {reference.limit}")
    remarks += [f"known to be wrong in the {REFERENCE}: {defect}" for defect in reference.defects]
    return tuple(remarks)
