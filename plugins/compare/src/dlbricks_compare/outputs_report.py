"""Agreement of backends as a table and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, cast

from dlbricks_compare.verification import REFERENCE, Verdict
from dlbricks_core.facts import Failure
from dlbricks_core.report import data as common
from dlbricks_core.report.tables import Console, styled, table

if TYPE_CHECKING:
    from dlbricks_compare.outputs_command import OutputsJob
    from dlbricks_core.commands.options.models import Done


class CompareOutputsData(common.ListedFailuresData):
    """Output of ``dlbricks compare outputs``."""

    settings: OutputSettingsData  #: How it was compared.
    verdicts: list[VerdictData]  #: One for each model and backend.


class VerdictData(TypedDict):
    """Agreement of a backend with the reference."""

    model: str  #: Name of the model.
    backend: str  #: Name of the backend.
    reference: str | None  #: Reference of the comparison.
    agrees: bool | None  #: Null: not compared.
    error: float | None  #: Largest difference, relative, less the allowance.
    #: Relative difference that counts as none, because operators round their inputs to few bits
    #: (accuracy_level); 0 without such operators.
    allowance: float
    finite: bool | None  #: Whether all results are finite.
    varied: bool | None  #: Whether results differ within a tensor.
    unsupported: list[UnsupportedOperatorData]  #: Layers that cannot run.
    failure: str | None  #: Why it did not run.
    reference_failure: str | None  #: Why the ONNX reference failed, if it did.
    remarks: list[str]  #: For people.
    #: Whether backends agree with each other, the reference does not, and no defect of it is known.
    disputed: bool


class OutputSettingsData(common.ReadingData):
    """How it was compared: the fields of the job, and how its models were read."""

    backends: list[str]  #: Names of the backends.
    backend_options: dict[str, dict[str, str]]  #: Chosen values of their options, by backend.
    threads: int  #: Threads that compute one operator.
    #: Seconds that a network may take to load or to run once; null for the default.
    timeout_s: float | None
    seed: int  #: Seed of weights and inputs.
    tolerance: float  #: Largest relative difference that counts as agreement.
    reference_timeout_s: float  #: Seconds that the reference evaluator may take.


class UnsupportedOperatorData(TypedDict):
    """A kind of layer that a backend does not support."""

    operator: str  #: Its type.
    layers: int  #: Number of such layers in the model.
    reason: str  #: Why.


def print_verification(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Prints the number of agreements, the problems, and a table of all verdicts."""
    agreeing = sum(verdict.agrees for verdict in verdicts)
    style = "bold" if agreeing == len(verdicts) else "bold red"
    text = f"{agreeing} of {len(verdicts)} agree, within the tolerance."
    console.print(styled((text, style)))
    _print_problems(console, verdicts)
    rows = [
        (
            verdict.model,
            verdict.backend,
            "(reference)" if verdict.reference == verdict.backend else verdict.reference or "-",
            "-" if verdict.error is None else f"{verdict.error:.1e}",
            styled((_result(verdict), "" if verdict.agrees else "red")),
        )
        for verdict in sorted(verdicts, key=lambda each: each.agrees)
    ]
    columns = ("Model", "Backend", "Compared with", "Largest error", "Result")
    console.print(table(*columns, rows=rows, left=3))
    # Remarks are the same for all backends of a model.
    for model, remark in dict.fromkeys((v.model, each) for v in verdicts for each in v.remarks):
        console.print(f"Remark: {model}: {remark}")


def _print_problems(console: Console, verdicts: Sequence[Verdict]) -> None:
    for model, failure in dict.fromkeys((v.model, v.reference_failure) for v in verdicts):
        if failure:
            console.print(styled(("Failed:", "red"), f" {model} on the {REFERENCE}: {failure}"))
    for verdict in verdicts:
        where = f"{verdict.model} on {verdict.backend}"
        for each in verdict.unsupported:
            console.print(styled(("Unsupported:", "red"), f" {where}: {_unsupported(each)}"))
        if verdict.failure:
            console.print(styled(("Failed:", "red"), f" {where}: {verdict.failure}"))


def verification_data(done: Done[Sequence[Verdict]], job: OutputsJob) -> CompareOutputsData:
    """Compared outputs as the JSON object that scripts read.

    An infinite error, from a value that is missing or infinite on one side only, is written as
    null with ``"finite": false``.
    """
    settings = {name: value for name, value in vars(job).items() if name != "models"}
    settings |= common.reading_data(job.models.options)
    return {
        "schema_version": common.SCHEMA_VERSION,
        "settings": cast("OutputSettingsData", settings),
        "verdicts": [
            {
                "model": verdict.model,
                "backend": verdict.backend,
                "reference": verdict.reference or None,
                "agrees": verdict.agrees,
                "error": verdict.error
                if verdict.error is not None and math.isfinite(verdict.error)
                else None,
                "allowance": verdict.allowance,
                "finite": verdict.error is None or math.isfinite(verdict.error),
                "varied": verdict.varied if verdict.error is not None else None,
                "unsupported": [
                    {"operator": each.part, "layers": each.layers, "reason": each.reason}
                    for each in verdict.unsupported
                ],
                "failure": verdict.failure or None,
                "remarks": list(verdict.remarks),
                "reference_failure": verdict.reference_failure or None,
                "disputed": verdict.disputed,
            }
            for verdict in done.result
        ],
        "failures": common.failures_data(done.failures),
    }


def _result(verdict: Verdict) -> str:
    if verdict.unsupported:
        return "unsupported"
    if verdict.error is None:
        return "failed"
    if verdict.error > verdict.tolerance:
        return "differs"
    if verdict.disputed:
        return "disputed"
    return "agrees" if verdict.varied else "constant"


def _unsupported(failure: Failure) -> str:
    if not failure.part:
        return failure.reason
    times = f" (x{failure.layers})" if failure.layers > 1 else ""
    # Backends name the operator in their reasons.
    return f"{failure.part}{times}: {failure.reason.removeprefix(f'{failure.part}: ')}"
