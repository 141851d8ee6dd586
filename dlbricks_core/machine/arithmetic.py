"""Width of a processor's vectors, and the element types that it multiplies by itself.

Frameworks convert values of other types to float32 before they compute, and back afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.facts import System

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
