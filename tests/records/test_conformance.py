"""The actions pass the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_records.announced import CompareCommand, RecordCommand, RepeatCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestRecord(CommandConformance):
    plugin = RecordCommand


class TestRepeat(CommandConformance):
    plugin = RepeatCommand


class TestCompare(CommandConformance):
    plugin = CompareCommand
