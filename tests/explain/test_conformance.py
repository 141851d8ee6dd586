"""The actions pass the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_explain.announced import LayersCommand, TraceCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestLayers(CommandConformance):
    plugin = LayersCommand


class TestTrace(CommandConformance):
    plugin = TraceCommand
