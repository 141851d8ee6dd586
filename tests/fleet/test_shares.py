"""Shares of a suite: what their networks are called."""

from dlbricks_fleet.shares import OpenSuite

from dlbricks_core.bricks import Brick
from dlbricks_core.measure.cutting import Target


def test_a_network_of_many_layers_has_a_short_name(builder):
    b = builder((8,))
    last = b.input
    for _ in range(30):
        last = b.relu(last)
    target = Target(Brick("abc", b.model()), "brick")
    (priced,) = OpenSuite(None, None, (target,)).priced()
    assert priced.name == "Relu ×30"
