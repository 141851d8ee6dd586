"""The command passes the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_records.announced import ResultsCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestResults(CommandConformance):
    plugin = ResultsCommand
