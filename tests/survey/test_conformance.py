"""The action passes the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_survey.announced import SurveyCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestSurvey(CommandConformance):
    plugin = SurveyCommand
