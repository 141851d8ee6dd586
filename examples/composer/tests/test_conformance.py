from dlbricks_elementwise.composer import Elementwise
from dlbricks_testing import ComposerConformance


class TestElementwise(ComposerConformance):
    plugin = Elementwise
