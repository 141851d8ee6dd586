"""The commands pass the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_serving.announced import Advise, Serve
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestServe(CommandConformance):
    plugin = Serve


class TestAdvise(CommandConformance):
    plugin = Advise
