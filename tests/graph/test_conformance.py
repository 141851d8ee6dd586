"""The action passes the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_graph.announced import GraphCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestGraph(CommandConformance):
    plugin = GraphCommand
