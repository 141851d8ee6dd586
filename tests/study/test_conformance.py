"""The command passes the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_study.announced import RepeatsCommand, StudyCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestStudy(CommandConformance):
    plugin = StudyCommand


class TestRepeats(CommandConformance):
    plugin = RepeatsCommand
