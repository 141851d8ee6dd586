"""Where tests find what several of them share."""

import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
sys.path += [str(_HERE / "helpers"), str(_HERE.parents[2] / "tests" / "corpus")]
pytest.register_assert_rewrite("one_layer")
