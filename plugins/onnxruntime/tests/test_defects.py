"""Each known defect of the onnx reference, against what ONNX Runtime computes."""

import numpy as np
import pytest
from dlbricks_compare.agreement import difference
from dlbricks_compare.reference import DEFECTS, known_defects
from dlbricks_onnxruntime.timer import OnnxruntimeTimer
from dlbricks_testing import cases

from dlbricks_core.backends import BackendSettings

RECURRENT = {
    "LSTM": "(float[5,2,4] x, float[1,12,4] w1, float[1,12,3] w2, float[1,24] w3) => (y, h)"
            "{{ {before} y, h = LSTM<hidden_size=3{attributes}>(x, w1, w2, w3{inputs}) }}",
    "GRU": "(float[5,2,4] x, float[1,9,4] w1, float[1,9,3] w2, float[1,18] w3) => (y, h)"
           "{{ {before} y, h = GRU<hidden_size=3{attributes}>(x, w1, w2, w3{inputs}) }}",
    "RNN": "(float[5,2,4] x, float[1,3,4] w1, float[1,3,3] w2, float[1,6] w3) => (y, h)"
           "{{ {before} y, h = RNN<hidden_size=3{attributes}>(x, w1, w2, w3{inputs}) }}",
}  # fmt: skip


def recurrent(operator, attributes="", before="", inputs=""):
    text = RECURRENT[operator].format(attributes=attributes, before=before, inputs=inputs)
    return f"{operator}: ", text


LENGTHS = "n = Constant<value = int32[2] {3, 5}>()"

#: What is said of the case, and its text.
CASES = {
    **{f"{op}_clip": recurrent(op, ", clip=0.05") for op in RECURRENT},
    **{f"{op}_lengths": recurrent(op, "", LENGTHS, ", n") for op in RECURRENT},
    "lstm_gates": recurrent("LSTM", ', activations=["Relu", "Tanh", "Tanh"]'),
    "gru_gates": recurrent("GRU", ', activations=["HardSigmoid", "Tanh"]'),
    "lstm_forget": recurrent("LSTM", ", input_forget=1"),
    "rnn_directions": (
        "RNN: both",
        "(float[5,2,4] x, float[2,3,4] w1, float[2,3,3] w2) => (y)"
        ' { y = RNN<hidden_size=3, direction="bidirectional", activations=["Tanh", "Affine"],'
        " activation_alpha=[0.5, 0.5], activation_beta=[0.1, 0.1]>(x, w1, w2) }",
    ),
    "max_pool_pads": (
        "MaxPool: pads",
        "(float[1,2,8,8] x) => (y) { y = MaxPool<kernel_shape=[3,3], pads=[1,1,0,0]>(x) }",
    ),
    "max_pool_1d": (
        "MaxPool: pads",
        "(float[1,2,9] x) => (y) { y = MaxPool<kernel_shape=[3], pads=[1,1]>(x) }",
    ),
    "max_pool_indices": (
        "MaxPool: the indices",
        "(float[2,2,7,7] x) => (y, i) { y, i = MaxPool<kernel_shape=[2,2]>(x) }",
    ),
    "lp_pool_ceil": (
        "LpPool: ",
        "(float[1,2,8,8] x) => (y)"
        " { y = LpPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x) }",
    ),
    "lp_normalization": (
        "LpNormalization: ", "(float[2,5] x) => (y) { y = LpNormalization<p=1>(x) }"
    ),
    "lrn": ("LRN: ", "(float[1,8,4,4] x) => (y) { y = LRN<size=3, alpha=0.1>(x) }"),
    "attention_scores": (
        "Attention: ",
        "(float[2,2,5,4] q, float[2,2,6,4] k, float[2,2,6,4] v) => (y, s)"
        " { y, , , s = Attention<softcap=0.5>(q, k, v) }",
    ),
    "grid_sample": (
        "GridSample: ",
        "(float[1,2,6,7] x, float[1,5,5,2] g) => (y)"
        ' { y = GridSample<mode="cubic", padding_mode="border", align_corners=1>(x, g) }',
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def timer():
    return OnnxruntimeTimer(BackendSettings(1, {"optimizations": "off"}))


@pytest.mark.parametrize("name", CASES)
def test_the_reference_is_wrong_and_known_to_be(timer, monkeypatch, name):
    monkeypatch.setattr(cases, "_HEADER", cases._HEADER.replace('"" : 21', '"" : 23'))
    start, text = CASES[name]
    network = cases.build(text, name)
    (defect,) = known_defects(network.model)
    assert defect.startswith(start)
    loaded = timer.load(network)
    timer.run(loaded)
    found = timer.outputs(loaded)
    try:
        with np.errstate(all="ignore"):
            wrong = cases.evaluate(network)
    except IndexError:
        return  # as wrong as it can be
    assert difference(found, wrong) > 1e-3


def test_every_defect_has_a_case():
    said = {start.partition(":")[0] for start, _ in CASES.values()}
    assert said == {operator for defect in DEFECTS for operator in defect.operators}
    assert len(CASES) >= sum(len(defect.operators) for defect in DEFECTS)


@pytest.mark.parametrize("name", sorted({*cases.COMMON} - {"lrn"}))
def test_nothing_is_known_against_common_cases(name):
    assert known_defects(cases.network(name).model) == ()


def test_layers_of_any_rank_are_looked_at():
    network = cases.build("(float[8] x) => (y) { y = LRN<size=3>(x) }")
    assert known_defects(network.model) == (
        "LRN: it goes through batches instead of channels",
    )  # fmt: skip
