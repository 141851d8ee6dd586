"""The command passes the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_accuracy.announced import CheckCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestCheck(CommandConformance):
    plugin = CheckCommand
