"""The command passes the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_suite.announced import SuiteCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestSuite(CommandConformance):
    plugin = SuiteCommand
