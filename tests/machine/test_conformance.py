"""The command passes the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_machine.announced import MachineCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestMachine(CommandConformance):
    plugin = MachineCommand
