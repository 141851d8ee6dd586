"""Table of operators: all facts about each operator of the canonical form.

Rows stand in modules by family, beside the functions that they name. The table holds facts alone:
passes and plugins implement operators in rooms of their own.
"""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.operators.domains import OperatorDomain
    from dlbricks_core.operators.operator import Lacks, Operator, Traffic
    from dlbricks_core.operators.table import OPERATORS, operator, standing_for

__all__ = [
    "OPERATORS",
    "Lacks",
    "Operator",
    "OperatorDomain",
    "Traffic",
    "operator",
    "standing_for",
]

lazy(__name__)
