"""Limits of MXNet's tensors: element types and numbers of axes."""

from dlbricks_core.ir.limits import MAX_AXES

#: Types that MXNet's matrix kernels compute with on CPUs.
REAL = frozenset({"float32", "float64"})
FLOAT = REAL | {"float16"}
INTEGER = frozenset({"int8", "uint8", "int32", "int64"})
NUMBER = FLOAT | INTEGER
#: Every element type that MXNet knows.
ANY = NUMBER | {"bool"}

#: Most axes of a selection by a condition; most operators join axes where they can.
SELECTION_AXES = 5
#: Most axes of the oneDNN arrays that any tensor may become; what has more is one row of numbers.
MOST_AXES = 6
#: Most axes for operators that only move elements: as many as a tensor of the IR may have.
ANY_AXES = MAX_AXES
