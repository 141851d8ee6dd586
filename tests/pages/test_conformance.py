"""The action passes the conformance suite that any distribution's must pass."""

import pytest
from dlbricks_pages.announced import PagesCommand
from dlbricks_testing import CommandConformance

pytestmark = pytest.mark.process


class TestPages(CommandConformance):
    plugin = PagesCommand
