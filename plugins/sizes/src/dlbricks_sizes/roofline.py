"""Roofline: the minimum time of a machine for a model's operations and weights.

An estimate of a language model below it is a defect: it is refused by name, and never clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from dlbricks_core.analysis.work import Work
from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.facts import Failure, System
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.speed import generation_of, lanes
from dlbricks_core.operators import Traffic, operator
from dlbricks_sizes.machine_speed import read_bandwidth

_NARROW = 4
"""Lanes of units of 128 bits, of which a core has four; a core has two wider units."""

_FASTER: Mapping[str, float] = {
    "amx_int8": 32.0, "amx_bf16": 16.0, "amx_fp16": 16.0,
    "avx512_vnni": 4.0, "avx_vnni": 4.0, "i8mm": 8.0, "asimddp": 4.0,
    "avx512_bf16": 2.0, "avx512_fp16": 2.0, "bf16": 4.0, "svebf16": 4.0, "asimdhp": 2.0,
}  # fmt: skip
"""Operations on short types by instruction set, relative to those on float32 (Intel, Intel
Architecture Instruction Set Extensions Programming Reference; Arm, Architecture Reference Manual).
"""

_TURBO, _UNSTEADY = 1.3, 1.5
"""Maximum factor between a clock and its published rate, and between bandwidths of two minutes:
one virtual machine delivered 31 and 48 GB/s in turns."""

_ROUND, _ROUNDS = 2**28, 3
"""Bytes of a round of reading, and rounds: a quarter of a second on a quiet machine."""


@dataclass(frozen=True)
class Roofline:
    """Upper bounds of a machine's work in a second.

    Attributes:
        flops_per_s: Operations of all threads in the shortest type that it multiplies.
        bytes_per_s: Bytes that all threads read from memory; infinite if not measured.
        cached_bytes: Bytes of weights that may stay in the caches from run to run.
    """

    flops_per_s: float
    bytes_per_s: float = math.inf
    cached_bytes: int = 0

    @classmethod
    def of(cls, result: RunResult) -> Self:
        """The roofline of a run; the bandwidth is measured if networks ran here undisturbed."""
        threads = max(result.request.settings.threads, *result.phase_threads.values(), 1)
        found = cls(_peak(result.request.target, threads))
        if not result.ledger.anew or result.is_doubtful:
            return found
        return replace(
            found,
            bytes_per_s=_UNSTEADY * read_bandwidth(threads, _ROUND, _ROUNDS),
            cached_bytes=sum(
                each.size * (threads if each.level < _SHARED else 1)
                for each in result.request.target.caches
                if each.kind != "instruction"
            ),
        )

    def least_ms(self, model: CanonicalModel) -> float:
        """Minimum milliseconds of a model in canonical form."""
        arithmetic = Work.of(model).flops / self.flops_per_s
        memory = max(_read_bytes(model) - self.cached_bytes, 0) / self.bytes_per_s
        return 1e3 * max(arithmetic, memory)

    def checked(self, result: ModelResult) -> tuple[ModelResult, str]:
        """A result, without its estimate if that is refused, and the reason.

        A measured figure is never refused.
        """
        value = result.estimate.value
        if value is None or result.is_measurement or result.measured is not None:
            return result, ""
        least = self.least_ms(result.cut.model)
        if value >= least:
            return result, ""
        reason = (
            f"the estimate of {value:.3g} ms is refused as a defect: the operations and weights "
            f"of the model take {least:.3g} ms or more on this machine; please report it"
        )
        return replace(result, estimate=Estimate(None, None)), reason


_SHARED = 3
"""Level of the first cache that belongs to several cores."""


def within(roof: Roofline, result: RunResult) -> RunResult:
    """The result, with estimates below the roofline replaced by failures."""
    checked = [roof.checked(each) for each in result.models]
    refused = [
        Failure(each.cut.model.name, reason, "compose", "", result.request.backend.name)
        for each, reason in checked
        if reason
    ]
    models = [each for each, _ in checked]
    return replace(result, models=models, unread=[*result.unread, *refused])


def _peak(system: System, threads: int) -> float:
    """Upper bound of the operations per second on a number of cores."""
    published = generation_of(system.vendor, system.family, system.model).ghz
    ghz = max(_TURBO * published, max(system.max_mhz, default=0) / 1e3)
    wide = lanes(system)
    multiply_adds = wide * (4 if wide == _NARROW else 2)
    factor = max((_FASTER.get(name, 1.0) for name in system.isa), default=1.0)
    return threads * ghz * 1e9 * 2 * multiply_adds * factor


def _read_bytes(model: CanonicalModel) -> int:
    """Bytes of weights that layers read completely; of tables they read only a few rows."""
    whole: set[str] = set()
    for layer in model.layers:
        row = operator(layer.qualified_op)
        picked = row.traffic is Traffic.PICKED
        whole |= {
            name
            for at, name in enumerate(layer.inputs)
            if name in model.weights and not (row.input(at).table or (picked and at == 0))
        }
    return sum(model.tensors[name].nbytes for name in whole)
