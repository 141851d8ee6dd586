"""Dimensions of decoders: of new tokens, and of the cache."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from dlbricks_core.errors import ModelError
from dlbricks_core.passes.bind_sizes import CACHED
from dlbricks_core.passes.options import OpenDimension
from dlbricks_core.wording import argument
from dlbricks_sizes.sizing import Sizes, opened

Role = Literal["sequence", "past", "total", "encoded"]
"""Role of a dimension: new tokens, tokens in the cache, or both together; tokens that an encoder
reads."""

NAMES: Mapping[Role, frozenset[str]] = {
    "sequence": frozenset({
        "sequence", "sequence_length", "seq", "seq_len", "seq_length", "seqlen", "sequence_len",
        "decoder_sequence_length", "target_sequence_length", "input_length", "query_length",
        "new_tokens", "num_tokens",
    }),
    "past": frozenset({
        "past", "past_sequence_length", "past_sequence", "past_sequence_len", "past_seq_len",
        "past_seq_length", "past_seq", "past_seqlen", "past_length", "past_len", "past_tokens",
        "past_decoder_sequence_length", "past_kv_len", "past_kv_length", "past_key_values_length",
        "cache_length", "cache_len", "kv_cache_length", "kv_len",
    }),
    "total": frozenset({
        "total", "total_sequence_length", "total_sequence_len", "total_seq_len",
        "total_seq_length", "total_length", "attention_mask_sequence_length",
        "attention_mask_length", "past_and_sequence_length",
    }),
}  # fmt: skip
"""Names of the dimensions in files of exporters, in lower case."""

_PLACES: tuple[tuple[re.Pattern[str], int, Role], ...] = (
    (re.compile(r"(decoder_)?(input_ids|inputs_embeds)|position_ids"), 1, "sequence"),
    (CACHED, 2, "past"),
    (re.compile(r"attention_mask"), 1, "total"),
)
"""Inputs, and the axis of a role, where the dimension's name does not show its role."""

_ENCODED = "encoder_input_ids"
"""Input with the tokens that an encoder reads before the decoder begins."""

_OF_ENCODER = re.compile(r"(?<![a-z])encoder|cross", re.IGNORECASE)
"""Part of the names of an encoder's outputs: their sizes stay while tokens are generated."""


_STATE = re.compile(r"past_(state|conv|conv_states?|ssm_states?|recurrent_states?)\.\d+")
"""Inputs with a state of fixed size and an open batch."""


@dataclass(frozen=True)
class DecoderDimensions:
    """Dimensions of a decoder that matter in text generation.

    Attributes:
        names: Names of the dimensions of each role: at least one dimension for new tokens and,
            unless the model has a state of fixed size, one for the cache.
    """

    names: Mapping[Role, tuple[str, ...]]

    @classmethod
    def of(cls, name: str, dimensions: Sequence[OpenDimension]) -> Self:
        """The dimensions of a model.

        Args:
            name: Name of the model, for errors.
            dimensions: Open dimensions of its inputs.

        Raises:
            ModelError: If there is no open dimension for new tokens, or none for the cache of a
                model without a state of fixed size.
        """
        found: dict[Role, dict[str, None]] = {}
        for each in dimensions:
            if each.input == _ENCODED and each.axis == 1:
                found["encoded"] = {each.name: None}
            if _OF_ENCODER.search(each.input):
                continue
            for symbol in sorted(each.symbols):
                role = _by_name(symbol) or _by_place(each, symbol)
                if role is not None:
                    found.setdefault(role, {})[symbol] = None
        if any(_STATE.fullmatch(each.input) for each in dimensions):
            found.setdefault("past", {})
        lacking = [what for role, what in _WANTED.items() if role not in found]
        if lacking:
            raise ModelError(
                f"{name} leaves no dimension open for {' or '.join(lacking)}",
                hint=f"{opened(dimensions)} A decoder with a cache has both, such as sequence and "
                f"past. For other dimensions, use {argument('sweep')}.",
            )
        return cls({role: tuple(names) for role, names in found.items()})

    @property
    def encodes(self) -> bool:
        """Whether an encoder reads the prompt, and the decoder begins with one token."""
        return "encoded" in self.names

    def sizes(self, sequence: int, past: int, batch: int, encoded: int = 0) -> Sizes:
        """Sizes for numbers of new tokens, of tokens in the cache, and of encoded tokens."""
        by_role: Mapping[Role, int] = {
            "sequence": sequence, "past": past, "total": sequence + past, "encoded": encoded
        }  # fmt: skip
        dims = [(each, size) for role, size in by_role.items() for each in self.names.get(role, ())]
        together = f", batch {batch}" if batch > 1 else ""
        of_encoder = f" of {encoded} encoded" if self.encodes else ""
        return Sizes(tuple(dims), batch, f"{sequence} after {past}{of_encoder}{together}")


_WANTED: Mapping[Role, str] = {"sequence": "new tokens", "past": "the cache"}


def _by_name(symbol: str) -> Role | None:
    return next((role for role, names in NAMES.items() if symbol.lower() in names), None)


def _by_place(dimension: OpenDimension, symbol: str) -> Role | None:
    """Role derived from the input of the dimension; ``None`` for parts of expressions."""
    if symbol != dimension.name:
        return None
    return next(
        (
            role
            for pattern, axis, role in _PLACES
            if axis == dimension.axis and pattern.fullmatch(dimension.input)
        ),
        None,
    )
