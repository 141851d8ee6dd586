"""Configurations of checkpoints with quantized weights: the nearest conversion that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dlbricks_core.errors import ModelError, shown
from dlbricks_core.wording import settings

FIELDS = ("quantization_config", "compression_config", "quantization")
"""Fields of quantized weights: of all methods, of old compressed-tensors, and of MLX."""

_BITS = ("bits", "num_bits", "nbits", "w_bit", "wbits", "weight_bits")
"""Fields with the bits of a weight, as methods name them."""

_NAMES = ("quant_method", "bnb_4bit_quant_type")
"""Fields with the names of the method, and of the type where the method has several."""

_FLAGS: Mapping[str, int] = {"load_in_4bit": 4, "load_in_8bit": 8}

_TYPES = (
    re.compile(r"(?:int|fp|float)(\d)_?weight"),
    re.compile(r"(?:^|[^a-z])(?:u?int|nf|(?:mx|nv)?fp|float)(\d)"),
)
"""A type of weights in the name of a method or in a value, the surest first:
``int8_dynamic_activation_int4_weight``, ``mxfp4``."""

_NOT_WEIGHTS = re.compile(r"activation|input|output|kv_cache|softmax|bias")
"""Names of parts that describe other tensors."""

_METHODS: Mapping[str, int] = {"aqlm": 2, "bitnet": 2, "fouroversix": 4, "vptq": 2}
"""Bits of a weight by methods that state none."""

_MOST_FIELDS = 1000
"""Maximum fields that are looked at."""


def check_quantized(quantization: Any, source: str, dtype: str | None) -> None:
    """Refuses quantized weights that no conversion follows, and names the nearest one.

    Args:
        quantization: Value of the field; ``None`` for plain weights.
        source: Name of the configuration for messages.
        dtype: Name of the conversion; ``None`` for none.

    Raises:
        ModelError: If the weights are quantized, and would get 32 bits.
    """
    if quantization is None or dtype is not None:
        return
    fields = quantization if isinstance(quantization, dict) else {}
    named = [fields[key] for key in _NAMES if isinstance(fields.get(key), str)]
    by = f" by {' '.join(map(shown, named))}" if named else ""
    bits = next(_bits(quantization), _METHODS.get(str(fields.get("quant_method")).lower()))
    of = f" of {bits} bits" if bits else ""
    nearest = "int4 or int8" if bits is None else "int4" if bits <= 4 else "int8"
    raise ModelError(
        f"{source}: weights{of} that are quantized{by} need an element type ({FIELDS[0]})",
        hint=f"Give {settings(dtype=nearest)}, which is nearest; for 32 bits, remove the field.",
    )


def _bits(values: Any) -> Iterator[int]:
    """Bits of a weight, from the field that is named after them and then from names of types."""
    fields = list(_fields(values))
    yield from (value for key, value in fields if key in _BITS and _is_width(value))
    yield from (bits for key, bits in _FLAGS.items() if (key, True) in fields)
    texts = [value.lower() for _, value in fields if isinstance(value, str)]
    yield from (int(found[1]) for kind in _TYPES for text in texts if (found := kind.search(text)))


def _is_width(value: object) -> bool:
    return type(value) is int and 1 <= value <= 8


def _fields(values: Any) -> Iterator[tuple[str, Any]]:
    """Fields of a configuration and of its parts for weights, those of the whole first."""
    left: list[Any] = [[values]]
    for _ in range(_MOST_FIELDS):
        if not left:
            return
        part = left.pop(0)
        items = part.items() if isinstance(part, dict) else enumerate(part)
        for key, value in items:
            if _NOT_WEIGHTS.search(str(key)):
                continue
            yield str(key), value
            left += [value] if isinstance(value, dict | list) else []
