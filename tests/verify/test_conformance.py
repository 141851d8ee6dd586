"""The actions pass the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_testing import CommandConformance
from dlbricks_verify.announced import OutputsCommand

pytestmark = pytest.mark.process


class TestOutputs(CommandConformance):
    plugin = OutputsCommand
