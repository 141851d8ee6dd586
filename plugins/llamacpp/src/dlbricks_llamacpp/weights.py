"""Drawn weights in the types of llama.cpp's files, and which weight has which type.

Bits are drawn as they lie in a file. Only the factors of a group of weights are set: as random
bits they would be infinite or no numbers. Kernels take as long for any other values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlbricks_core.errors import UnsupportedError


@dataclass(frozen=True)
class Type:
    """An element type of ggml.

    Attributes:
        number: Number of the type in files.
        group: Number of weights that are stored together.
        nbytes: Bytes of such a group.
        factors: Places of the group's factors in it, 16-bit floats, in bytes.
        narrower: Name of the type for rows that cannot be divided into such groups.
    """

    number: int
    group: int
    nbytes: int
    factors: tuple[int, ...] = ()
    narrower: str = "f16"

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row of so many weights."""
        return columns // self.group * self.nbytes


TYPES: Mapping[str, Type] = {
    "f32": Type(0, 1, 4),
    "f16": Type(1, 1, 2),
    "bf16": Type(30, 1, 2),
    "q4_0": Type(2, 32, 18, (0,)),
    "q5_0": Type(6, 32, 22, (0,)),
    "q5_1": Type(7, 32, 24, (0, 2)),
    "q8_0": Type(8, 32, 34, (0,)),
    "q4_k": Type(12, 256, 144, (0, 2), "q5_0"),
    "q5_k": Type(13, 256, 176, (0, 2), "q5_1"),
    "q6_k": Type(14, 256, 210, (208,), "q8_0"),
}
"""Types by name."""


@dataclass(frozen=True)
class Mixture:
    """Types of a file's weights, as llama-quantize chooses them.

    Attributes:
        usual: Type of most matrices.
        finer: Type of some matrices of a block that needs more bits: values, alone or joined with
            queries and keys, and the projection down.
        head: Type of the last projection, also where it is the embedding.
    """

    usual: str
    finer: str
    head: str


MIXTURES: Mapping[str, Mixture] = {
    "f16": Mixture("f16", "f16", "f16"),
    "bf16": Mixture("bf16", "bf16", "bf16"),
    "q8_0": Mixture("q8_0", "q8_0", "q8_0"),
    "q6_k": Mixture("q6_k", "q6_k", "q6_k"),
    "q5_k_m": Mixture("q5_k", "q6_k", "q6_k"),
    "q4_k_m": Mixture("q4_k", "q6_k", "q6_k"),
    "q4_0": Mixture("q4_0", "q4_0", "q6_k"),
}
"""Mixtures by the name of the file's type."""


def is_fine(block: int, blocks: int) -> bool:
    """Whether llama-quantize gives some matrices of a block more bits."""
    return block < blocks // 8 or block >= 7 * blocks // 8 or (block - blocks // 8) % 3 == 2


def type_for(name: str, columns: int) -> Type:
    """The type of a matrix, or the one that llama-quantize falls back to.

    Args:
        name: Name of the type.
        columns: Weights of a row.
    """
    while columns % TYPES[name].group:
        name = TYPES[name].narrower
    return TYPES[name]


_FACTOR = 1e-4
"""Factor of a group: about the smallest that trained weights have."""

_DRAWN_BYTES = 4 << 20
"""Bytes that are drawn; longer weights repeat them."""


def drawn(kind: Type, rows: int, columns: int, seed: int) -> Iterator[bytes]:
    """Bytes of a matrix of drawn weights, in pieces."""
    total = rows * kind.row_bytes(columns)
    groups = max(1, min(total, _DRAWN_BYTES) // kind.nbytes)
    piece = _groups(kind, groups, np.random.default_rng(seed)).tobytes()
    for _ in range(total // len(piece)):
        yield piece
    yield piece[: total % len(piece)]


def _groups(kind: Type, count: int, random: np.random.Generator) -> npt.NDArray[np.uint8]:
    if kind.group == 1:
        values = random.normal(0.0, 0.02, count).astype(np.float32)
        if kind is TYPES["f32"]:
            return values.view(np.uint8)
        if kind is TYPES["bf16"]:
            return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return values.astype(np.float16).view(np.uint8)
    found = random.integers(0, 256, (count, kind.nbytes), np.uint8)
    for place in kind.factors:
        found[:, place : place + 2] = np.frombuffer(np.float16(_FACTOR).tobytes(), np.uint8)
    return found


def mixture(name: str) -> Mixture:
    """The mixture of a file's type.

    Raises:
        UnsupportedError: If there is none.
    """
    if name not in MIXTURES:
        raise UnsupportedError(f"files of the type {name} are not written here")
    return MIXTURES[name]
