"""Files of llama.cpp (GGUF, version 3) with drawn weights, for some blocks of a language model."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dlbricks_llamacpp.architecture import Architecture
from dlbricks_llamacpp.weights import Type, drawn, mixture, type_for

Value = bool | int | float | str | tuple[bool, ...]

_ALIGNMENT = 32
"""Bytes at whose multiples the data of a weight begin."""


@dataclass(frozen=True)
class Block:
    """Differences between one block of a file and others.

    Attributes:
        fine: Whether some matrices have more bits.
        window: Whether its queries attend to the last positions only.
    """

    fine: bool = False
    window: bool = False


@dataclass(frozen=True)
class Tensor:
    """A weight of a file.

    Attributes:
        name: Name in llama.cpp.
        kind: Element type.
        columns: Elements of a row.
        rows: Number of rows; 0 for a vector.
        matrices: Number of matrices, one for each expert.
    """

    name: str
    kind: Type
    columns: int
    rows: int = 0
    matrices: int = 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements along each axis, the innermost first."""
        found = (self.columns, self.rows, self.matrices)
        return found if self.matrices > 1 else found[: 2 if self.rows else 1]

    @property
    def all_rows(self) -> int:
        """Number of rows of all matrices; 1 for a vector."""
        return max(self.rows, 1) * self.matrices

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return self.all_rows * self.kind.row_bytes(self.columns)


def block_tensors(of: Architecture, block: Block, dtype: str, index: int = 0) -> list[Tensor]:
    """Weights of a block.

    Args:
        of: The architecture.
        block: The block.
        dtype: Type of the file, a key of ``MIXTURES``.
        index: Number of the block in its file.
    """
    types, at = mixture(dtype), f"blk.{index}"
    queries, keys, hidden = of.heads * of.head_dim, of.kv_heads * of.head_dim, of.hidden
    finer = types.finer if block.fine else types.usual

    def vector(name: str, size: int) -> Tensor:
        return Tensor(f"{at}.{name}", type_for("f32", size), size)

    def matrix(name: str, kind: str, inner: int, outer: int, matrices: int = 1) -> Tensor:
        return Tensor(f"{at}.{name}.weight", type_for(kind, inner), inner, outer, matrices)

    def feed_forward(suffix: str, width: int, matrices: int = 1) -> list[Tensor]:
        return [matrix(f"ffn_gate{suffix}", types.usual, hidden, width, matrices),
                matrix(f"ffn_up{suffix}", types.usual, hidden, width, matrices),
                matrix(f"ffn_down{suffix}", finer, width, hidden, matrices)]  # fmt: skip

    found = [matrix("attn_output", types.usual, queries, hidden)]
    if of.pre_normed:
        found += [vector("attn_norm.weight", hidden), vector("ffn_norm.weight", hidden)]
    if of.joined:
        found += [matrix("attn_qkv", finer, hidden, queries + 2 * keys)]
    else:
        found += [matrix("attn_q", types.usual, hidden, queries),
                  matrix("attn_k", types.usual, hidden, keys),
                  matrix("attn_v", finer, hidden, keys)]  # fmt: skip
    if of.experts:
        found += [matrix("ffn_gate_inp", "f32", hidden, of.experts)]
        found += feed_forward("_exps", of.expert_width, of.experts)
    elif of.joined:
        found += [matrix("ffn_up", types.usual, hidden, 2 * of.feed_forward),
                  matrix("ffn_down", finer, of.feed_forward, hidden)]  # fmt: skip
    else:
        found += feed_forward("", of.feed_forward)
    if of.shared_width:
        found += [vector("ffn_gate_inp_shexp.weight", hidden)]
        found += feed_forward("_shexp", of.shared_width)
    if of.biased:
        sizes = {"attn_q": queries, "attn_k": keys, "attn_v": keys}
        found += [vector(f"{name}.bias", size) for name, size in sizes.items()]
    if of.normed:
        sizes = {"attn_q_norm": queries, "attn_k_norm": keys}
        found += [vector(f"{name}.weight", size if of.jointly else of.head_dim)
                  for name, size in sizes.items()]  # fmt: skip
    if of.post_normed:
        names = ("post_attention_norm", "post_ffw_norm")
        found += [vector(f"{name}.weight", hidden) for name in names]
    return found


def head_tensors(of: Architecture, dtype: str) -> list[Tensor]:
    """Weights of the embedding and of the last projection."""
    types = mixture(dtype)
    kinds = {"token_embd": types.head if of.tied else types.usual}
    if not of.tied:
        kinds["output"] = types.head
    return [
        *(Tensor(f"{name}.weight", type_for(kind, of.hidden), of.hidden, of.vocabulary)
          for name, kind in kinds.items()),
        Tensor("output_norm.weight", type_for("f32", of.hidden), of.hidden),
    ]  # fmt: skip


def tensors_of(of: Architecture, blocks: Sequence[Block], dtype: str) -> list[Tensor]:
    """All weights of a file."""
    names = {1: ["rope_freqs"], 2: ["rope_factors_long", "rope_factors_short"]}
    factors = [Tensor(f"{name}.weight", type_for("f32", of.turned // 2), of.turned // 2)
               for name in names.get(of.factors, ())]  # fmt: skip
    inner = (block_tensors(of, block, dtype, index) for index, block in enumerate(blocks))
    return [*head_tensors(of, dtype), *factors, *(each for part in inner for each in part)]


def metadata_of(of: Architecture, blocks: Sequence[Block], context: int) -> dict[str, Value]:
    """Fields of a file, by key.

    Args:
        of: The architecture.
        blocks: Blocks of the file.
        context: Maximum number of positions.
    """
    own: dict[str, Value] = {
        "vocab_size": of.vocabulary,
        "context_length": context,
        "embedding_length": of.hidden,
        "block_count": len(blocks),
        "feed_forward_length": of.feed_forward,
        "attention.head_count": of.heads,
        "attention.head_count_kv": of.kv_heads,
        "attention.key_length": of.head_dim,
        "attention.value_length": of.head_dim,
        "attention.layer_norm_rms_epsilon": of.epsilon,
        "rope.dimension_count": of.turned,
        "rope.freq_base": of.theta,
    }
    optional: dict[str, Value] = {
        "attn_logit_softcapping": of.attention_cap,
        "final_logit_softcapping": of.cap,
        "attention.sliding_window": of.window,
        "rope.freq_base_swa": of.local_theta,
        "rope.scaling.original_context_length": context if of.factors > 1 else 0,
        "expert_count": of.experts,
        "expert_used_count": of.used,
        "expert_feed_forward_length": of.expert_width,
        "expert_shared_feed_forward_length": of.shared_width,
        **of.scales,
    }
    own |= {key: value for key, value in optional.items() if value}
    if of.window:
        own["attention.sliding_window_pattern"] = tuple(block.window for block in blocks)
    return {
        "general.architecture": of.family,
        "tokenizer.ggml.model": "none",
        **{f"{of.family}.{key}": value for key, value in own.items()},
    }


def write(
    path: Path, of: Architecture, blocks: Sequence[Block], dtype: str, context: int, seed: int = 0
) -> None:
    """Writes a file with drawn weights.

    Args:
        path: Place of the file.
        of: The architecture; the number of its blocks does not count.
        blocks: Blocks of the file, at least one.
        dtype: Type of the weights, a key of ``MIXTURES``.
        context: Maximum number of positions.
        seed: Seed of the weights.
    """
    tensors, fields = tensors_of(of, blocks, dtype), metadata_of(of, blocks, context)
    with path.open("wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(fields)))
        for key, value in fields.items():
            file.write(_text(key) + _value(value))
        place = 0
        for each in tensors:
            axes = len(each.sizes)
            file.write(_text(each.name) + struct.pack(f"<I{axes}Q", axes, *each.sizes))
            file.write(struct.pack("<IQ", each.kind.number, place))
            place += _aligned(each.nbytes)
        _pad(file)
        for number, each in enumerate(tensors):
            for piece in _data(each, seed + number):
                file.write(piece)
            _pad(file)


def _data(tensor: Tensor, seed: int) -> Iterator[bytes]:
    return drawn(tensor.kind, tensor.all_rows, tensor.columns, seed)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _pad(file: BinaryIO) -> None:
    file.write(bytes(_aligned(file.tell()) - file.tell()))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


_VALUES: Mapping[type, Callable[..., bytes]] = {
    bool: lambda value: struct.pack("<I?", 7, value),
    int: lambda value: struct.pack("<II", 4, value),
    float: lambda value: struct.pack("<If", 6, value),
    str: lambda value: struct.pack("<I", 8) + _text(value),
    tuple: lambda value: struct.pack(f"<IIQ{len(value)}?", 9, 7, len(value), *value),
}
"""How a value is written, with the number of its type before it."""


def _value(value: Value) -> bytes:
    return _VALUES[type(value)](value)
