"""Kinds of layers that share an operator, but not a kernel."""

import numpy as np
import pytest
from dlbricks_prediction.baseline import Processor, doubted, expected_ms
from dlbricks_prediction.features import Features
from dlbricks_testing import cases


def kinds(text):
    return Features.of(cases.build(text).model).kinds


ALIKE = {
    "(float[1,8,6] x) => (y) { y = MaxPool<kernel_shape=[2]>(x) }": ["pool:max-line"],
    "(float[1,8,6,6] x) => (y) { y = MaxPool<kernel_shape=[2,2]>(x) }": ["pool:max"],
    "(float[1,8,5,5] x, float[8,8,1,1] w1) => (y) { y = Conv(x, w1) }": ["convolution:dense"],
    "(float[1,8,5,5] x, float[8,4,1,1] w1) => (y) { y = Conv<group=2>(x, w1) }": [
        "convolution:grouped-fours"
    ],
    "(float[1,8,5,5] x, float[8,1,1,1] w1) => (y) { y = Conv<group=8>(x, w1) }": [
        "convolution:depthwise"
    ],
    "(float[2,8] x, float[8,4] w1) => (y) { y = MatMul(x, w1) }": ["product:weights"],
    "(float[2,8] a, float[8,4] b) => (y) { y = MatMul(a, b) }": ["product:activations"],
    '(float[2,8] a, float[8,4] b) => (y) { y = Einsum<equation="ij,jk->ik">(a, b) }': [
        "product:einsum"
    ],
    "(float[2,8] x) => (y) { y = Tanh(x) }": ["function:tanh"],
    "(float[2,8] x) => (y) { y = Relu(x) }": ["elementwise:relu"],
    "(float[2,8] a, float[2,8] b) => (y) { y = Add(a, b) }": ["elementwise:add-maps"],
    "(float[2,8] x, float[8] w1) => (y) { y = Add(x, w1) }": ["elementwise:add-vector"],
    "(float[2,8] x) => (y) { y = Softmax(x) }": ["softmax:last"],
    "(float[2,8,3] x) => (y) { y = Softmax<axis=1>(x) }": ["softmax:inner"],
    "(float[1,8,4,5,5] x, float[6,8,1,1,1] w1) => (y) { y = Conv(x, w1) }": [
        "convolution:dense-volume"
    ],
    "(float[1,8,4,5,5] x, float[8,6,2,2,2] w1) => (y) { y = ConvTranspose(x, w1) }": [
        "convolution:transposed-volume"
    ],
    "(float[1,8,4,4,4] x) => (y) { y = MaxPool<kernel_shape=[2,2,2]>(x) }": ["pool:max-volume"],
    '(float[1,2,4,4] x) => (y) { s = Constant<value_ints=[1,2,8,8]>() y = Resize<mode="cubic">'
    "(x, , , s) }": ["resize:cubic"],
    "(float[8,1,32] x, float[1,192,32] w1, float[1,192,64] w2) => (y)"
    "{ y = GRU<hidden_size=64>(x, w1, w2) }": ["recurrent:gru"],
    "(float[2,8,3] x, int64[2,5,3] i) => (y) { y = GatherElements<axis=1>(x, i) }": [
        "gather:elements"
    ],
    '(float[2,8,3] a, float[2,6,3] b) => (y) { y = Einsum<equation="ikc,ijc->kjc">(a, b) }': [
        "product:einsum-apart"
    ],
    "(float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v) => (y) { y = Attention(q, k, v) }": [
        "attention:free"
    ],
    "(float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v) => (y)"
    "{ y = Attention<is_causal=1>(q, k, v) }": ["attention:masked"],
}


@pytest.mark.parametrize("text", ALIKE, ids=lambda text: text[text.rindex("=") + 2 : -2])
def test_operators_that_are_computed_alike_are_of_one_class(text):
    assert list(kinds(text)) == ALIKE[text]


def test_a_pool_that_says_where_its_maxima_are_is_of_another_kind():
    pool = "MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)"
    plain = kinds(f"(float[1,3,8,8] x) => (y) {{ y = {pool} }}")
    both = kinds(f"(float[1,3,8,8] x) => (y, i) {{ y, i = {pool} }}")
    assert plain + both == ("pool:max", "pool:places")


def depthwise(channels, spatial="9,9", window="3,3"):
    text = (
        f"(float[1,{channels},{spatial}] x, float[{channels},1,{window}] w1) => (y)"
        f"{{ y = Conv<group={channels}>(x, w1) }}"
    )
    return Features.of(cases.build(text).model)


@pytest.mark.parametrize(
    ("channels", "kind"),
    [(8, ""), (72, ""), (112, ""), (4, "-fours"), (116, "-fours"), (58, "-odd"), (27, "-odd")],
)
def test_channels_that_do_not_fill_vectors_are_of_a_kind_of_their_own(channels, kind):
    assert depthwise(channels).kinds == (f"convolution:depthwise{kind}",)
    volume = depthwise(channels, "9,9,9", "3,3,3")
    assert volume.kinds == (f"convolution:depthwise{kind}-volume",)


def test_a_loop_over_such_channels_is_expected_to_be_slower(system):
    processor = Processor.of(system(), 1)
    full, fours, odd = (expected_ms(depthwise(n), processor)[0] / n for n in (800, 796, 798))
    assert odd > fours > full


def after_groups_of(read, written, then, groups=2):
    """Kinds of a convolution in groups of so many channels, and of layers that follow."""
    text = (
        f"(float[1,{groups * read},9,9] x, float[{groups * written},{read},3,3] w1,"
        f" float[{groups * written}] w2) => (y) {{ a = Conv<group={groups}>(x, w1) {then} }}"
    )
    return Features.of(cases.build(text).model).kinds


@pytest.mark.parametrize(
    ("read", "written", "kind"),
    [(8, 8, ""), (24, 16, ""), (4, 4, "-fours"), (12, 32, "-fours"), (8, 20, "-fours"),
     (6, 6, "-odd"), (58, 20, "-odd"), (3, 16, "-odd")],
)  # fmt: skip
def test_groups_that_do_not_fill_vectors_are_of_a_kind_of_their_own(read, written, kind):
    found = after_groups_of(read, written, "y = Relu(a)")
    assert found[0] == f"convolution:grouped{kind}"


NORMALIZED = "y = BatchNormalization(a, w2, w2, w2, w2)"
READERS = {
    NORMALIZED: "scale:fours@convolution",
    "y = MaxPool<kernel_shape=[3,3]>(a)": "pool:max-fours",
    "y = AveragePool<kernel_shape=[3,3]>(a)": "pool:mean-fours",
    "y = GlobalAveragePool(a)": "reduce:map-fours",
    f"b = Relu(a) {NORMALIZED.replace('(a,', '(b,')}": "scale:fours@convolution",
    "b = Sigmoid(a) c = Concat<axis=1>(b, b) y = MaxPool<kernel_shape=[3,3]>(c)": "pool:max-fours",
    "b = MaxPool<kernel_shape=[2,2]>(a) y = GlobalMaxPool(b)": "reduce:map-fours",
}


@pytest.mark.parametrize(("then", "kind"), READERS.items())
def test_what_reads_maps_in_blocks_of_four_is_of_a_kind_of_its_own(then, kind):
    assert after_groups_of(12, 12, then)[-1] == kind
    for width in (8, 10):  # blocks of eight, and no blocks at all
        assert after_groups_of(width, width, then)[-1] == kind.replace(":fours", "").replace(
            "-fours", ""
        )


@pytest.mark.parametrize(
    "then",
    [
        "b = Transpose<perm=[0,1,3,2]>(a) y = MaxPool<kernel_shape=[3,3]>(b)",
        "b = Conv<group=1>(a, w3) y = MaxPool<kernel_shape=[3,3]>(b)",
        "b = Constant<value_ints=[2,3]>() y = ReduceMean(a, b)",
    ],
)
def test_blocks_of_four_end_where_another_layout_begins(then):
    text = (
        "(float[1,24,9,9] x, float[24,12,3,3] w1, float[24,24,3,3] w3)"
        f" => (y) {{ a = Conv<group=2>(x, w1) {then} }}"
    )
    assert "fours" not in Features.of(cases.build(text).model).kinds[-1]


def test_depthwise_and_dense_convolutions_write_no_blocks_of_four():
    for groups, read in ((20, 1), (1, 20)):
        found = after_groups_of(read, 20 // groups, NORMALIZED, groups)
        assert found[1] == "scale@convolution"


TYPED = {
    "(int64[2,3,8] x, int64[8,4] w1) => (y) { y = MatMul(x, w1) }": "product:weights~int64",
    "(int32[2,3,8] x, int32[8,4] w1) => (y) { y = MatMul(x, w1) }": "product:weights~int32",
    "(double[2,3,8] x, double[8,4] w1) => (y) { y = MatMul(x, w1) }": "product:weights~float64",
    "(int64[2,8] x, int64[8] w1) => (y) { y = Einsum<equation=\"ab,b->ab\">(x, w1) }":
        "product:einsum-apart~int64",
    "(double[2,8] x) => (y) { y = Exp(x) }": "function:exp~float64",
    "(float[2,3,8] x, float[8,4] w1) => (y) { y = MatMul(x, w1) }": "product:weights",
    # Indices decide where floats come from, and copies take what their bytes take.
    "(float[2,8] x) => (y) { y = ArgMax(x) }": "reduce:places-inner",
    "(int64[2,8] x, int64[2,8] a) => (y) { y = Concat<axis=0>(x, a) }": "copy:joined-outer",
}  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), TYPED.items(), ids=list(TYPED.values()))
def test_layers_of_unusual_types_are_of_kinds_of_their_own(text, kind):
    assert Features.of(cases.build(text).model).kinds == (kind,)


UNLIKE_IN_VALUES = {
    "function:pow": "(float[2,8] x) => (y) { e = Constant<value=float {2.0}>() y = Pow(x, e) }",
    "function:power": "(float[2,8] x) => (y) { e = Constant<value=float {0.7}>() y = Pow(x, e) }",
    "function:power-maps": "(float[2,8] x, float[2,8] e) => (y) { y = Pow(x, e) }",
    "function:mod": "(int64[2,8] x, int64[2,8] e) => (y) { y = Mod(x, e) }",
    "spectrum": "(float[2,512,1] x) => (y) { a = Constant<value=int64 {1}>() y = DFT(x, , a) }",
    "spectrum:odd": "(float[2,500,1] x) => (y) { a = Constant<value=int64 {1}>() y = DFT(x, , a) }",
    "pool:powers": "(float[1,2,8,8] x) => (y) { y = LpPool<kernel_shape=[2,2]>(x) }",
}


@pytest.mark.parametrize(("kind", "text"), UNLIKE_IN_VALUES.items(), ids=list(UNLIKE_IN_VALUES))
def test_what_sizes_do_not_decide_is_of_a_kind_of_its_own_and_doubted(kind, text, system):
    found = Features.of(cases.build(text).model)
    own = kind.removesuffix("-maps")
    assert found.kinds[-1].partition("~")[0] == own
    (*_, doubt) = np.diag(
        doubted(np.zeros((len(found.kinds),) * 2), found, found, Processor.of(system(), 1))
    )
    assert (doubt > 0.5) == (own != "function:pow")
