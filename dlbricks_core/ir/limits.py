"""What the engine takes from a file at most; ``docs/reference/ir.md`` lists all of it.

Every limit lies far above what models are, and is checked before anything is allocated:
a file of a few bytes may ask for more than any machine has.
"""

from __future__ import annotations

from collections.abc import Collection

from dlbricks_core.errors import ModelError

MAX_FILE_BYTES = 2**31 - 1
"""Of a serialized model: more than that protobuf cannot read. Weights may lie beside it."""

SMALL_FILE_BYTES = 2**22
"""Of a file that can do no harm, whatever it holds; only larger ones are counted first."""

MAX_MESSAGES = 2_000_000
"""Layers, attributes, tensors and whatever else a model's file consists of."""

MAX_ELEMENTS = 2**38
"""Of one tensor. The largest weights of today's models have less than 2**36."""

MAX_AXES = 32
"""Of one tensor; what numpy can hold."""

MAX_LAYERS = 250_000
"""Of one model, once its functions stand where they are called."""

MAX_NESTED_CALLS = 100
"""Functions that call each other, one inside of another."""

MAX_CONSTANT_ELEMENTS = 4096
"""Of initializers whose values are kept: shapes, axes, pads and what they are computed from
are smaller, weights that take memory are larger."""

MAX_CONSTANT_BYTES = 2**20
"""Of a value that is computed while folding; only texts can be longer than their number tells."""

MAX_ATTRIBUTE_BYTES = 2**26
"""Of a tensor in an attribute that lies in an external file: it is part of the layer."""

MAX_RUN_ELEMENTS = 2**16
"""That one layer reads where it is run to tell its results' shapes."""

MAX_RUN_NUMBER = 2**12
"""In the attributes of such a layer: pads and kernels of that size take memory, too."""


def check_shape(shape: Collection[object]) -> None:
    """Checks the sizes of a tensor, as far as they are known.

    Args:
        shape: Sizes; what is no integer is not known.

    Raises:
        ModelError: If no machine could hold such a tensor, or a size is negative.
    """
    # Zero elements are no excuse: what is computed on the way to them has the other sizes.
    elements = 1
    for size in shape:
        if isinstance(size, int) and size:
            elements *= size
            if size < 0:
                raise _unfit(shape, "a negative size")
    if elements > MAX_ELEMENTS:
        raise _unfit(shape, f"more than {MAX_ELEMENTS} elements")
    if len(shape) > MAX_AXES:
        raise _unfit(shape, f"{len(shape)} axes, more than {MAX_AXES}")


def _unfit(shape: Collection[object], problem: str) -> ModelError:
    sizes = "x".join(str(size) for size in list(shape)[:8]) + "x..." * (len(shape) > 8)
    return ModelError(
        f"the shape {sizes} has {problem}",
        hint="The file is damaged, or sizes given for dynamic dimensions do not fit.",
    )
