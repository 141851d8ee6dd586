"""ONNX Runtime's own operators, as seen by code that seldom needs their definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dlbricks_contrib.domain import DOMAIN, WITHOUT_DOMAIN
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.operators import Operator
from dlbricks_core.operators.domains import AddedOperator, OperatorDomain
from dlbricks_core.plugins import load_object


def _converted(function: str, model: CanonicalModel, **settings: str) -> CanonicalModel:
    """The model converted by a function that is imported now: few models are converted."""
    converted: CanonicalModel = load_object(f"dlbricks_contrib.{function}")(model, **settings)
    return converted


_FLOATS = ("bfloat16", "float16", "float32")
_INTEGERS = ("int4", "int8")


class OnnxruntimeOperators(OperatorDomain):
    """ONNX Runtime's own operators, and models that its quantizers write with them."""

    name = DOMAIN
    without_domain = frozenset({WITHOUT_DOMAIN})

    def operators(self) -> Mapping[tuple[str, str], AddedOperator]:
        """All operators by their domain in files and their type."""
        from dlbricks_contrib.operators import OPERATORS

        return OPERATORS

    def rows(self) -> Mapping[str, Operator]:
        """Rows of the table of operators."""
        from dlbricks_contrib.rows import ROWS

        return ROWS

    def in_onnx(self, model: CanonicalModel) -> CanonicalModel:
        """The model with definitions of ONNX in the place of the operators that have one."""
        # Definitions take a tenth of a second to import, and few models need any.
        from dlbricks_contrib.expand import expanded

        return expanded(model, known=()).model

    def joined(self, model: CanonicalModel) -> CanonicalModel:
        """The model with products of 4-bit weights in the place of layers that widen them."""
        from dlbricks_contrib.join import joined

        return joined(model)

    def conversions(self) -> Mapping[str, Callable[[CanonicalModel], CanonicalModel]]:
        """Conversions to floats and to integers."""
        floats = {name: partial(_converted, "floats:to_float", dtype=name) for name in _FLOATS}
        return floats | {name: partial(_converted, f"quantized:to_{name}") for name in _INTEGERS}
