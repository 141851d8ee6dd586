from dlbricks_widest.announced import Widest

from dlbricks_core.testing import CommandConformance


class TestWidest(CommandConformance):
    plugin = Widest
