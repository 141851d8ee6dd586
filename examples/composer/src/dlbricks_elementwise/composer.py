"""The paper's sum, with one element-wise layer of each operator timed."""

from collections.abc import Mapping

from dlbricks_core.analysis import Volume
from dlbricks_core.bricks import Brick
from dlbricks_core.compose import OwnFigure, Plan, Recipe, Scaled, Sequential
from dlbricks_core.facts import Setup, System

OPERATORS = frozenset({"Add", "Clip", "Mul", "Relu", "Sigmoid", "Tanh"})
"""Operators that treat all elements alike."""

ERROR = 0.2
"""Standard deviation of the relative error of a latency that is derived from another size."""


class Elementwise(Sequential):
    """Sequential total latency; element-wise layers follow from the largest of their operator."""

    name = "elementwise"

    def plan(self, bricks: Mapping[str, Brick], setup: Setup, system: System) -> Plan:
        """Times the largest brick of each operator, and every brick that is not element-wise."""
        nbytes = {signature: Volume.of(brick.model).nbytes for signature, brick in bricks.items()}
        largest: dict[tuple[str, ...], str] = {}
        for signature, brick in bricks.items():
            if OPERATORS.issuperset(brick.operators):
                other = largest.setdefault(brick.operators, signature)
                largest[brick.operators] = max(signature, other, key=nbytes.__getitem__)
        timed = dict(bricks)
        recipes: dict[str, tuple[Recipe, ...]] = {s: (OwnFigure(s),) for s in bricks}
        for signature, brick in bricks.items():
            source = largest.get(brick.operators, signature)
            if source != signature:
                del timed[signature]
                ratio = nbytes[signature] / nbytes[source]
                recipes[signature] += (Scaled(signature, source, ratio, ERROR),)
        return Plan(timed, recipes)
