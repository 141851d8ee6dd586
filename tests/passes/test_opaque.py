"""Layers that cannot be known before the model runs are named, and the rest stays normal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import CanonicalModel, read_model
from dlbricks_core.passes import normalize

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.example" : 1]>\n'


def normal(text: str) -> CanonicalModel:
    return normalize(read_model(onnx.parser.parse_model(HEAD + text), name="m"))


def reasons(model: CanonicalModel) -> dict[str, str]:
    return {layer.op: layer.opaque for layer in model.layers if layer.opaque}


def test_data_dependent_shape_spreads_until_the_producer_knows() -> None:
    model = normal("""
        g (float[4,4] x) => (float[4] y)
        <int64[1] four = {4}>
        {
            where = NonZero(x)
            cast = Cast<to=1>(where)
            y = Einsum<equation="ij->j">(cast)
            z = Relu(y)
        }""")
    found = reasons(model)
    assert found["NonZero"] == "data-dependent shape (NonZero)"
    assert found["Cast"] == "input without a known shape (where)"
    assert "Einsum" in found
    assert model.tensors["y"].sizes == (4,)


def test_layers_after_a_declared_result_stay_normal() -> None:
    model = normal("""
        g (float[4,4] x) => (float[4] z)
        <float[4] y>
        {
            where = NonZero(x)
            cast = Cast<to=1>(where)
            y = Einsum<equation="ij->j">(cast)
            z = Relu(y)
        }""")
    assert "Relu" not in reasons(model)


def test_known_values_have_no_data_dependent_shape() -> None:
    model = normal("""
        g (float[4] x) => (float[n] y)
        <float[4] mask = {0, 1, 0, 1}>
        { where = NonZero(mask)  rows = Squeeze(where)  y = Gather(x, rows) }""")
    assert [layer.op for layer in model.layers] == ["Gather"]
    assert model.tensors["y"].sizes == (2,)


def test_unknown_operator_is_named_or_kept() -> None:
    model = normal("""
        g (float[4] x) => (float[4] z)
        <float[4] known>
        {
            known = com.example.Fine<level=3>(x)
            unknown = com.example.Strange(known)
            z = Relu(unknown)
        }""")
    assert model.layers[0].attributes == {"level": 3}
    assert not model.layers[0].opaque
    assert reasons(model) == {
        "Strange": "unknown operator com.example.Strange",
        "Relu": "input without a known shape (unknown)",
    }
    assert model.opsets["com.example"] == 1


def test_an_operator_for_one_processor_says_which_file_to_name() -> None:
    model = normal("""
        g (float[4] x) => (float[4] y)
        { blocks = com.microsoft.nchwc.Conv(x)  y = Relu(blocks) }""")
    assert "before its optimizations" in reasons(model)["Conv"]


BRANCHES = """
g (float[1,4] x{more}) => (float[r] z)
{weights}
{{
    y = If({condition}) <
        then_branch = squeezed () => (float[4] a)
            {{ axes = Constant<value_ints=[0]>() a = Squeeze(x, axes) }},
        else_branch = same () => (float[1,4] b) {{ b = Identity(x) }}
    >
    z = Relu(y)
}}"""


@pytest.mark.parametrize(("condition", "ops"), [("1", ["Squeeze", "Relu"]), ("0", ["Relu"])])
def test_if_with_a_known_condition_is_inlined(
    condition: str, ops: list[str], compared: Callable[..., CanonicalModel]
) -> None:
    text = BRANCHES.format(
        more="", weights=f"<bool condition = {{{condition}}}>", condition="condition"
    )
    proto = onnx.parser.parse_model(HEAD + text)
    model = compared(proto, {"x": np.array([[1, -2, 3, -4]], np.float32)})
    assert [layer.op for layer in model.layers] == ops


NESTED = """
g (float[1,4] x) => (float[4] z)
<bool yes = {{1}}, bool inner = {{{inner}}}>
{{
    y = If(yes) <
        then_branch = squeezed () => (float[4] a)
        {{
            axes = Constant<value_ints=[0]>()
            same = Identity(x)
            t = Neg(same)
            u = If(inner) <
                then_branch = two () => (float[4] c)
                    {{ half = Abs(t) c = Squeeze(half, axes) }},
                else_branch = three () => (float[4] d) {{ d = Squeeze(t, axes) }}
            >
            a = Exp(u)
        }},
        else_branch = same () => (float[4] b) {{ b = Squeeze(x) }}
    >
    z = Relu(y)
}}"""


@pytest.mark.parametrize(
    ("inner", "ops"),
    [("1", ["Neg", "Abs", "Squeeze", "Exp", "Relu"]), ("0", ["Neg", "Squeeze", "Exp", "Relu"])],
)
def test_if_inside_of_a_branch_reads_what_the_branch_computed(
    inner: str, ops: list[str], compared: Callable[..., CanonicalModel]
) -> None:
    proto = onnx.parser.parse_model(HEAD + NESTED.format(inner=inner))
    model = compared(proto, {"x": np.array([[1, -2, 3, -4]], np.float32)})
    assert [layer.op for layer in model.layers] == ops


def test_tensors_that_an_opaque_layer_in_a_branch_captures_are_kept() -> None:
    model = normal("""
        g (float[4] x, int64 trips, bool go) => (float[4] y)
        <bool yes = {1}>
        {
            y = If(yes) <
                then_branch = counted () => (float[4] a)
                {
                    size = Abs(x)
                    kept = Identity(size)
                    a = Loop(trips, go, x) <
                        body = step (int64 i, bool c, float[4] s) => (bool d, float[4] t)
                        { d = Identity(c)  t = Add(s, kept) }>
                },
                else_branch = same () => (float[4] b) { b = Identity(x) }
            >
        }""")
    assert [layer.op for layer in model.layers] == ["Abs", "Identity", "Loop"]
    assert model.layers[2].captures == model.layers[1].outputs


LOOPS = {
    "counted": ("""(float[4] x) => (float[4] z, float[3,4] r) <int64 m = {3}> {
        y, r = Loop(m, , x) <body = b (int64 i, bool c, float[4] s)
            => (bool c, float[4] t, float[4] u) { t = Tanh(s) u = Identity(t) }> z = Relu(y) }""",
        "Tanh Tanh Tanh Unsqueeze Unsqueeze Unsqueeze Concat Relu"),
    "until": ("""(float[4] x) => (float[4] z) <int64 zero = {0}, bool yes = {1}> {
        n, y = Loop(, yes, zero, x) <body = b (int64 i, bool c, int64 k, float[4] s)
            => (bool on, int64 l, float[4] t) { one = Constant<value_int=1>()
            five = Constant<value_int=5>() l = Add(k, one) t = Tanh(s) on = Less(l, five) }>
        z = Relu(y) }""", "Tanh " * 5 + "Relu"),
    "nested": ("""(float[4] x) => (float[4] z) <bool yes = {1}, int64 m = {2}> {
        y = Loop(m, yes, x) <body = b (int64 i, bool c, float[4] s) => (bool c, float[4] t) {
            t = Loop(m, c, s) <body = d (int64 j, bool e, float[4] a) => (bool e, float[4] q)
                { q = Tanh(a) }> }> z = Relu(y) }""", "Tanh " * 4 + "Relu"),
    "no step": ("""(float[4] x) => (float[4] z) <int64 m = {0}> {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[4] s) => (bool c, float[4] t)
            { t = Tanh(s) }> z = Relu(y) }""", "Relu"),
    "scan": ("""(float[4] h, float[2,4] x) => (float[4] z, float[4,2] r) {
        z, r = Scan<num_scan_inputs=1, scan_output_axes=[1], body = b (float[4] s, float[4] a)
            => (float[4] t, float[4] u) { t = Add(s, a) u = Relu(t) }>(h, x) }""",
        "Gather Add Relu Gather Add Relu Unsqueeze Unsqueeze Concat"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_whose_steps_are_known_is_written_out(name: str) -> None:
    text, operators = LOOPS[name]
    model = normal("g " + text)
    assert not reasons(model)
    assert [layer.op for layer in model.layers] == operators.split()
    steps = {"counted": 3, "until": 5, "nested": 2 + 4, "no step": 0, "scan": 2}
    assert model.loop_steps == steps[name]


@pytest.mark.parametrize("steps", ["9", "30000"])
def test_a_loop_of_too_many_or_unknown_steps_stays_whole(steps: str) -> None:
    text = f"""g (float[4] x) => (z) <bool yes = {{1}}, int64 m = {{{steps}}}> {{
        y = Loop(m, yes, x) <body = b (int64 i, bool c, float[4] s) => (bool on, float[4] t) {{
            t = Tanh(s) v = ReduceSum<keepdims=0>(t) one = Constant<value_float=1.0>()
            on = Less(v, one) }}> z = Relu(y) }}"""
    model = normal(text)
    assert [layer.op for layer in model.layers] == ["Loop", "Relu"]
    assert model.loop_steps == 0
    (reason,) = reasons(model).values()  # the body states the shape of y
    assert reason.startswith("subgraph (Loop")
    # Its condition decides, which is computed in each step.
    decided = ", decided by values that it computes as it runs" in reason
    assert decided == (steps == "9")


def test_if_with_an_open_condition_is_opaque() -> None:
    text = BRANCHES.format(more=", bool condition", weights="", condition="condition")
    model = normal(text)
    reason = (
        "subgraph (If), decided by the input condition: give values={'condition': N} "
        "(N: 0 for no, 1 for yes)"
    )
    assert reasons(model)["If"] == reason
    assert model.layers[0].captures == ("x",)


def test_if_is_not_decided_by_a_computed_condition() -> None:
    text = BRANCHES.format(more="", weights="", condition="condition").replace(
        "    y = If", "    t = ReduceSum<keepdims=0>(x) condition = Cast<to=9>(t)\n    y = If"
    )
    assert reasons(normal(text))["If"] == (
        "subgraph (If), decided by values that it computes as it runs"
    )


@pytest.mark.parametrize(("values", "op"), [({}, "Squeeze"), ({"maybe": None}, "Relu")])
def test_an_optional_input_is_there_unless_it_is_left_out(values: dict[str, None], op: str) -> None:
    text = BRANCHES.format(more=", optional(float[2]) maybe", weights="", condition="there")
    text = text.replace("    y = If", "    there = OptionalHasElement(maybe)\n    y = If")
    model = normalize(read_model(onnx.parser.parse_model(HEAD + text), name="m"), values=values)
    assert model.layers[0].op == op
    assert not reasons(model)
    assert ("maybe" in model.inputs) is not bool(values)


def test_only_optional_inputs_are_left_out() -> None:
    raw = read_model(
        onnx.parser.parse_model(HEAD + "g (float[2] x) => (float[2] y) { y = Relu(x) }"), name="m"
    )
    with pytest.raises(ModelError, match="'x' is not an optional input"):
        normalize(raw, values={"x": None})


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("(float[9] x, int64[1] n) => (float[k] y) { y = Slice(x, zero, n) }", "N"),
        ("(float[9] x, int64 n) => (int64[k] y) { y = Range(a, n, b) }", "N"),
        ("(float[9] x, int64[1] n) => (float[k] y, int64[k] i) { y, i = TopK(x, n) }", "N"),
        ("(float[9] x, int64[2] n) => (float[k,l] y) { y = Reshape(x, n) }", "[N, N]"),
        ("(float[1,9] x, float[2] n) => (float[k,l] y) { y = Resize(x, , n) }", "[N, N]"),
        ("(float[1,9] x, int64[2] n) => (float[k,l] y) { m = Add(n, n) y = Tile(x, m) }",
         "[N, N]"),
        ("(float[9] x, float[9] n) => (int64[k,l] y) { y = NonZero(n) }", ""),
    ],
)  # fmt: skip
def test_a_shape_that_an_input_decides_names_it(body: str, hint: str) -> None:
    weights = "<int64[1] zero = {0}, int64 a = {0}, int64 b = {1}>"
    text = body.replace(" {", f" {weights} {{", 1)
    (reason,) = reasons(normal("g " + text)).values()
    assert ("decided by the input n" in reason) is bool(hint)
    assert reason.endswith(f": give values={{'n': {hint}}}") is bool(hint)


def test_layers_behind_one_unknown_shape_share_its_reason() -> None:
    text = (
        "g (float[9] x, int64[1] n) => (float[k] y) <int64[1] zero = {0}>"
        "{ s = Slice(x, zero, n) r = Relu(s) y = Tanh(r) }"
    )
    found = reasons(normal(text))
    assert found["Relu"] == found["Tanh"] == "input without a known shape (s)"


@pytest.mark.parametrize(
    ("number", "message"),
    [((1.0, 2.0, 3.0), "holds 2 numbers, not 3"), ((1.0, 2.5), "cannot hold 2.5")],
)
def test_several_numbers_have_to_fit(number: tuple[float, ...], message: str) -> None:
    text = "g (float[9] x, int64[2] n) => (float[k,l] y) { y = Reshape(x, n) }"
    raw = read_model(onnx.parser.parse_model(HEAD + text), name="m")
    assert normalize(raw, values={"n": (3, 3)}).tensors["y"].sizes == (3, 3)
    with pytest.raises(ModelError, match=message):
        normalize(raw, values={"n": number})
    with pytest.raises(ModelError, match="Reshape does not fit") as caught:
        normalize(raw, values={"n": (3, 4)})
    assert caught.value.hint == "Check the values given for inputs."


@pytest.mark.parametrize(
    ("dtype", "number", "hint"),
    [
        ("bool", 2, "Give 0 or 1."),
        ("uint8", 256, "Give whole numbers from 0 to 255."),
        ("int4", 8, "Give whole numbers from -8 to 7."),
    ],
)
def test_what_an_input_can_hold_is_told(dtype: str, number: float, hint: str) -> None:
    text = f"g (float[9] x, {dtype} n) => (float[9] y, {dtype} z) {{ y = Relu(x) z = Identity(n) }}"
    raw = read_model(onnx.parser.parse_model(HEAD + text), name="m")
    with pytest.raises(ModelError, match="cannot hold") as caught:
        normalize(raw, values={"n": number})
    assert caught.value.hint == hint


@pytest.mark.parametrize(("value", "ops"), [(3, ["Squeeze", "Relu"]), (0, ["Relu"])])
def test_a_value_for_an_input_decides_its_branches(value: int, ops: list[str]) -> None:
    text = BRANCHES.format(
        more=", int64 n, float[2] other", weights="<int64 one = {1}>", condition="condition"
    ).replace("    y = If", "    condition = Greater(n, one)\n    y = If")
    raw = read_model(onnx.parser.parse_model(HEAD + text), name="m")
    model = normalize(raw, values={"n": value})
    assert [layer.op for layer in model.layers] == ops
    assert model.inputs == ("x", "other")
    assert not reasons(model)


@pytest.mark.parametrize(
    ("values", "message"),
    [({"m": 1}, "no input is called 'm'"), ({"n": 0.5}, "cannot hold 0.5")],
)
def test_a_value_that_does_not_fit_is_refused(values: dict[str, float], message: str) -> None:
    raw = read_model(
        onnx.parser.parse_model(HEAD + "g (float[2] x, int64 n) => (float[2] y) { y = Relu(x) }"),
        name="m",
    )
    with pytest.raises(ModelError, match=message):
        normalize(raw, values=values)


def test_loop_is_opaque_and_its_captures_are_kept() -> None:
    model = normal("""
        g (float[4] x, int64 trips, bool go) => (float[4] y)
        {
            scale = Relu(x)
            kept = Identity(scale)
            y = Loop(trips, go, x) <
                body = step (int64 i, bool c, float[4] s) => (bool d, float[4] t)
                { d = Identity(c)  t = Add(s, kept) }>
        }""")
    assert [layer.op for layer in model.layers] == ["Relu", "Identity", "Loop"]
    (reason,) = reasons(model).values()
    assert reason.startswith("subgraph (Loop), decided by the input trips and go")
    assert model.tensors["y"].sizes == (4,)


def test_identity_between_input_and_output_stays() -> None:
    model = normal("g (float[4] x) => (float[4] y) { y = Identity(x) }")
    assert [layer.op for layer in model.layers] == ["Identity"]


def test_one_tensor_as_several_outputs_keeps_all_names() -> None:
    model = normal("""g (float[4] x) => (float[4] a, float[4] b, float[4] c)
        { t = Relu(x)  a = Identity(t)  b = Identity(t)  c = Neg(t) }""")
    assert model.outputs == ("a", "b", "c")
    assert [(layer.op, layer.inputs, layer.outputs) for layer in model.layers] == [
        ("Relu", ("x",), ("a",)),
        ("Identity", ("a",), ("b",)),
        ("Neg", ("a",), ("c",)),
    ]


def test_layers_and_weights_that_reach_no_output_are_dropped() -> None:
    model = normal("""g (float[4] x) => (float[4] y)
        <float[4] w = {1, 2, 3, 4}, float[4] unused = {1, 2, 3, 4}>
        { y = Mul(x, w)  dead = Exp(x)  deader = Neg(dead) }""")
    assert [layer.op for layer in model.layers] == ["Mul"]
    assert model.weights == {"w"}
    assert model.tensors.keys() == {"x", "y", "w"}


def test_constant_result_is_a_weight() -> None:
    model = normal("""g (float[4] x) => (int64[1] n, float[4] y)
        { n = Shape(x)  y = Relu(x) }""")
    assert model.constants["n"].tolist() == [4]
    assert [layer.op for layer in model.layers] == ["Relu"]


def test_layers_that_draw_random_numbers_stay() -> None:
    model = normal("""g (float[4] x) => (float[4] y)
        <float[4] w = {1, 2, 3, 4}>
        { noise = RandomNormalLike<seed=1.0>(w)  y = Add(x, noise) }""")
    assert [layer.op for layer in model.layers] == ["RandomNormalLike", "Add"]
    assert "seed" not in model.layers[0].attributes


LONG = {
    "Loop": """
        g (float[4] x) => (float[4] y)
        <int64 steps = {30000}>
        {
            y = Loop<body = b (int64 i, bool go, float[4] s) => (bool more, float[4] t)
                { more = Identity(go)  t = Relu(s) }>(steps, , x)
        }""",
    "Scan": """
        g (float[4] h, float[30000,4] x) => (float[4] y, float[30000,4] r)
        {
            y, r = Scan<num_scan_inputs=1, body = b (float[4] s, float[4] a)
                => (float[4] t, float[4] o) { t = Add(s, a)  o = Relu(t) }>(h, x)
        }""",
}


@pytest.mark.parametrize("op", LONG)
def test_a_loop_that_is_too_long_is_named_with_its_number_of_layers(op: str) -> None:
    found = reasons(normal(LONG[op]))
    told = "up to 30,000 steps: 60,000 layers if it were written out, above 20,000"
    assert found == {op: f"subgraph ({op} of {told})"}


def test_a_scan_of_no_step_says_so() -> None:
    text = LONG["Scan"].replace("30000", "N")
    model = normalize(read_model(onnx.parser.parse_model(HEAD + text), name="m"), dims={"N": 0})
    told = "subgraph (Scan), which takes no step and stacks results of none"
    assert reasons(model) == {"Scan": told}


def test_a_zero_of_reshape_without_a_size_to_copy_is_wrong_usage() -> None:
    text = """g (float[4,64] x) => (float[a,b,c] y) <int64[3] to = {-1, 2, 0}>
        { y = Reshape(x, to) }"""
    with pytest.raises(ModelError, match=r"a 0 of \(-1, 2, 0\) stands for a size that"):
        normal(text)
