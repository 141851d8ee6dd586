"""Speed of processors, as their makers publish it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dlbricks_core.facts import System

# Width of a processor's vectors, and the element types that it multiplies by itself.
#
# Frameworks convert values of other types to float32 before they compute, and back afterwards.

MULTIPLYING: Mapping[str, tuple[str, ...]] = {
    "bfloat16": ("amx_bf16", "avx512_bf16", "bf16", "svebf16"),
    "float16": ("amx_fp16", "avx512_fp16", "asimdhp"),
    "int8": ("amx_int8", "avx512_vnni", "avx_vnni", "avx_vnni_int8", "i8mm", "asimddp"),
}
"""Instruction sets that multiply and add numbers of a type, as Linux names them: those of x86
(Intel, Architecture Instruction Set Extensions Programming Reference), then those of Arm (Linux
kernel, ARM64 ELF hwcaps)."""


def multiplying(system: System, dtype: str) -> tuple[str, ...] | None:
    """Instruction sets of a system that multiply numbers of a type.

    Args:
        system: Facts about the system.
        dtype: One of the types in ``MULTIPLYING``.

    Returns:
        Their names, none if values are converted; ``None`` if the system's are not known.
    """
    if not system.isa:
        return None
    return tuple(name for name in MULTIPLYING[dtype] if name in system.isa)


_HALF_WIDTH = frozenset({("AuthenticAMD", "25")})
"""Makers and families of processors whose units are half as wide as their registers.

Zen 4 splits an instruction of 512 bits in two (AMD, Software Optimization Guide for the Zen 4
Microarchitecture, 2023, section 2.11).
"""


def lanes(system: System) -> int:
    """Numbers of float32 that one unit of a processor's core computes in a clock cycle."""
    if "avx512f" in system.isa:
        return 8 if (system.vendor, system.family) in _HALF_WIDTH else 16
    return 8 if "avx2" in system.isa else 4


# Generations of server processors, and published facts about their speed.

_INTEL, _AMD = "GenuineIntel", "AuthenticAMD"


@dataclass(frozen=True)
class ProcessorGeneration:
    """Published speed of a generation of processors.

    Attributes:
        name: Name of the microarchitecture, as archspec spells it; empty if it is not known.
        ghz: Usual highest clock rate of its server processors, in GHz.
        instructions: Instructions in a clock cycle, relative to Skylake.
        transfers: Millions of transfers per second of each memory channel.
    """

    name: str
    ghz: float
    instructions: float
    transfers: int


UNKNOWN = ProcessorGeneration("", 3.0, 1.0, 3200)
"""Assumed speed of a generation that the table lacks."""

_HASWELL = ProcessorGeneration("haswell", 3.5, 0.89, 2133)
_BROADWELL = ProcessorGeneration("broadwell", 3.5, 0.94, 2400)
_SKYLAKE = ProcessorGeneration("skylake_avx512", 3.7, 1.0, 2666)
_ICE_LAKE = ProcessorGeneration("icelake", 3.5, 1.19, 3200)
_SAPPHIRE_RAPIDS = ProcessorGeneration("sapphirerapids", 3.8, 1.37, 4800)
# Base clock rate: on the shared host of the reference data, all cores together keep no higher one.
_EMERALD_RAPIDS = ProcessorGeneration("emeraldrapids", 2.1, 1.37, 5600)
_GRANITE_RAPIDS = ProcessorGeneration("graniterapids", 3.9, 1.45, 6400)
_ZEN = ProcessorGeneration("zen", 3.2, 0.91, 2666)
_ZEN_2 = ProcessorGeneration("zen2", 3.4, 1.05, 3200)
_ZEN_3 = ProcessorGeneration("zen3", 3.6, 1.25, 3200)
_ZEN_4 = ProcessorGeneration("zen4", 3.7, 1.42, 4800)
_ZEN_5 = ProcessorGeneration("zen5", 4.1, 1.66, 6000)

_TABLE: Mapping[tuple[str, str], Mapping[range, ProcessorGeneration]] = {
    (_INTEL, "6"): {
        range(63, 64): _HASWELL,
        range(79, 80): _BROADWELL,
        range(85, 86): _SKYLAKE,
        range(106, 109): _ICE_LAKE,
        range(143, 144): _SAPPHIRE_RAPIDS,
        range(173, 175): _GRANITE_RAPIDS,
        range(207, 208): _EMERALD_RAPIDS,
    },
    (_AMD, "23"): {range(0x30): _ZEN, range(0x30, 0x100): _ZEN_2},
    (_AMD, "25"): {
        range(0x10): _ZEN_3,
        range(0x10, 0x20): _ZEN_4,
        range(0x20, 0x60): _ZEN_3,
        range(0x60, 0x100): _ZEN_4,
    },
    (_AMD, "26"): {range(0x100): _ZEN_5},
}
"""Generations by maker and family, then by model.

Clock rates and memory are from data sheets. Instructions per cycle follow from what makers say
of a generation beside its predecessor: AMD 15%, 19%, 14% and 17% from Zen to Zen 5, Intel 5%, 6%,
19% and 15% from Haswell to Sapphire Rapids. Zen 2 is taken for 5% above Skylake.
"""


def generation_of(vendor: str, family: str, model: str) -> ProcessorGeneration:
    """Generation of a processor; ``UNKNOWN`` where the table lacks it.

    Args:
        vendor: Maker of the processor, as the processor names it.
        family: Family of the processor, as its maker numbers it.
        model: Model within the family.
    """
    number = int(model) if model.isdecimal() else -1
    known = _TABLE.get((vendor, family), {})
    return next((each for models, each in known.items() if number in models), UNKNOWN)
