"""The actions pass the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_survey.announced import CalibrateCommand, SurveyCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestCalibrate(CommandConformance):
    plugin = CalibrateCommand


class TestSurvey(CommandConformance):
    plugin = SurveyCommand
