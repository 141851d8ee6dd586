"""The actions pass the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_compare.announced import CompareCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestCompare(CommandConformance):
    plugin = CompareCommand
