from dlbricks_testing import CommandConformance
from dlbricks_widest.announced import Widest


class TestWidest(CommandConformance):
    plugin = Widest
