"""Where tests find what several of them share."""

import os
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
sys.path += [str(_HERE / "helpers"), str(_HERE.parents[2] / "tests" / "corpus")]

# torch.compile compiles a program for each set of vector instructions first, to see whether the
# compiler knows them: 9 s. The compiler of these tests knows those of any processor.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

pytest.register_assert_rewrite("one_layer")
