"""Who is blamed for an unexpected exception: the plugin whose code raised it."""

from textwrap import dedent

import pytest

COMPOSER = """
    from dlbricks_core.compose import Sequential

    class Good(Sequential):
        name = "NAME"
        def total(self, cut, costs): return cut.no_such_thing
"""

PROBE = """
    from dlbricks_core.facts import Composition, Quantity
    from dlbricks_core.measure import Probe

    class Good(Probe):
        quantity = Quantity("NAME", "ms", Composition.SUM, "a test")
        def observe(self, timer, model, seed): return (1.0,)
        def total(self, cut, values): return 1 / 0
"""


def test_tbd():
    pass
