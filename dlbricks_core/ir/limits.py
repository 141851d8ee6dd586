"""Maximum sizes that the engine accepts; ``docs/reference/ir.md`` lists all of them.

Every limit is far above the size of real models. The engine checks it before it allocates memory,
because a file of a few bytes may request more memory than any machine has.
"""

from __future__ import annotations

from collections.abc import Collection

from dlbricks_core.errors import ModelError

MAX_FILE_BYTES = 2**31 - 1
"""Bytes of a serialized model; protobuf reads no more. Weights may be in files beside it."""

SMALL_FILE_BYTES = 2**22
"""Bytes up to which a file is too small to do harm; messages are counted in larger files only."""

MAX_MESSAGES = 2_000_000
"""Messages in a file: layers, attributes, tensors and all other parts of a protobuf."""

MAX_ELEMENTS = 2**38
"""Elements of one tensor; the largest weights of models have fewer than 2**36."""

MAX_AXES = 32
"""Axes of one tensor; numpy has no more."""

MAX_LAYERS = 250_000
"""Layers of one model, once its functions are put where they are called."""

MAX_NESTED_CALLS = 100
"""Functions that call each other, one inside the other."""

MAX_CONSTANT_ELEMENTS = 4096
"""Elements of a weight whose value is kept. Shapes, axes, pads, and the numbers that they are
computed from have fewer; weights that take memory have more."""

MAX_CONSTANT_BYTES = 2**20
"""Bytes of a value that folding computes. Only texts reach this: elements of numbers are small."""

MAX_ATTRIBUTE_BYTES = 2**26
"""Bytes of a tensor in an attribute whose data are in a file beside the model."""

MAX_RUN_ELEMENTS = 2**16
"""Elements that a layer may read if it is run to find the shapes of its results."""

MAX_RUN_NUMBER = 2**12
"""Largest number in the attributes of a layer that is run: large pads and kernels take memory."""


def check_shape(shape: Collection[object]) -> None:
    """Checks the sizes of a tensor, as far as they are known.

    Args:
        shape: Sizes; entries that are not integers are unknown sizes.

    Raises:
        ModelError: If the tensor is too large for any machine, or a size is negative.
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
