"""Loops, which ONNX Runtime runs as loops while bricks are their steps."""

import onnx
import onnx.parser
import pytest

from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.estimation.run import run
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.measure.request import Request
from dlbricks_core.passes import normalize
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

LOOP = """<ir_version: 8, opset_import: ["": 17]>
g (float[4,64,64] x) => (float[4,64,64] y) <int64 m = {6}> {
    y = Loop(m, , x) <body = b (int64 i, bool c, float[4,64,64] s) => (bool c, float[4,64,64] t)
        { e = Exp(s) t = Tanh(e) }>
}"""
STEPS = """<ir_version: 8, opset_import: ["": 17]>
g (float[4,64,64] x) => (float[4,64,64] y) { a = Exp(x) b = Tanh(a) c = Exp(b) y = Tanh(c) }"""


@pytest.fixture
def told(tmp_path):
    """Kinds of the measurements that a run of a file leaves, and the codes of its notes."""

    def of(text):
        path = tmp_path / "m.onnx"
        onnx.save(onnx.parser.parse_model(text), path)
        model = normalize(OnnxImporter().load(path))
        asked = Request.of("onnxruntime", threads=1, precision=0.1, condition="hot", busy="accept")
        cut = CutOptions.chosen(None, None, LEARNED_COMPOSER)
        with ResultStore.open(tmp_path / "results.sqlite") as store:
            found = run([model], cut, asked, store, Observer(), end_to_end=False)
            bricks = found.models[0].cut.counts
            keys = [asked.hot.key(signature, "profiled") for signature in bricks]
            kept = store.get(keys)
        (each,) = found.models
        assert each.is_measurement
        return len(kept), {note.code for note in each.cut.notes}

    return of


def test_bricks_of_a_loop_are_not_taken_for_those_of_its_steps(told):
    kept, codes = told(LOOP)
    assert kept == 0
    assert "loops-written-out" in codes
    kept, codes = told(STEPS)
    assert kept > 0
    assert "loops-written-out" not in codes
