"""Networks of ``paper:`` compute the same on every framework that is installed."""

from importlib.util import find_spec

import pytest
from dlbricks_compare.verification import VerifyOptions, verify
from dlbricks_mxnet.paper import PaperModels

from dlbricks_core.measure.request import Request
from dlbricks_core.passes import normalize

#: One that routes and picks, one that pads behind only, and one that normalizes instances,
#: makes images larger and joins them across levels.
NUMBERS = ("4", "10", "36")
BACKENDS = [name for name in ("mxnet", "onnxruntime", "pytorch") if find_spec(f"dlbricks_{name}")]


@pytest.fixture(scope="module")
def verdicts():
    models = [normalize(PaperModels().load(number)) for number in NUMBERS]
    # The reference evaluator takes longer than all frameworks, and so is for one alone.
    how = VerifyOptions(reference_timeout_s=0 if len(BACKENDS) > 1 else 60)
    found = verify(models, [Request.of(name, threads=1) for name in BACKENDS], how)
    return {(verdict.model.split("_")[0], verdict.backend): verdict for verdict in found}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", NUMBERS)
def test_frameworks_agree(number, backend, verdicts):
    verdict = verdicts[number.zfill(2), backend]
    assert verdict.agrees, verdict
