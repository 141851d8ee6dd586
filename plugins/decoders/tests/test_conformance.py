"""The collection passes the suite that every collection must pass."""

from __future__ import annotations

from typing import ClassVar

import pytest
from dlbricks_decoders.collection import LanguageModels
from dlbricks_testing import CollectionConformance

from dlbricks_core.importers import ImportOptions

pytestmark = pytest.mark.process


class TestLanguageModels(CollectionConformance):
    plugin = LanguageModels
    framework_modules = ("onnx.reference",)
    sample = "smollm2-135m"
    options = ImportOptions(batch=1)
    dims: ClassVar = {"sequence": 1, "past": 16}
