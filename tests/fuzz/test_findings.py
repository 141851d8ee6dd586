"""Inputs that a defect was found with, by ``benchmarks/fuzz.py`` or by a user: none is one again.

A folder of ``findings`` has the files, and the command in the first line of ``finding.txt``, as the
fuzzer keeps them.
"""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

FINDINGS = sorted((Path(__file__).parent / "findings").iterdir())


@pytest.fixture(scope="module")
def fuzz():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
        patch.setattr(sys, "path", list(sys.path))
        import fuzz

        return fuzz


@pytest.mark.parametrize("folder", FINDINGS, ids=lambda folder: folder.name)
def test_a_finding_is_none_any_more(folder, fuzz):
    files = fuzz.contents(folder)
    command = files.pop("finding.txt").decode().splitlines()[0].removeprefix("dlbricks ")
    reader = fuzz.Reader("onnx", [files], lambda files, _: files, [command], imports=True)
    outcome, _ = fuzz.run(reader, fuzz.Input(0, (), 0))
    assert outcome.wrong == "", outcome.said
