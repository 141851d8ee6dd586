from dlbricks_precision.column import Precision
from dlbricks_testing import ColumnConformance


class TestPrecision(ColumnConformance):
    plugin = Precision
