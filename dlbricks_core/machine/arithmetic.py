"""Element types that a processor multiplies by itself, as its instruction sets tell.

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
