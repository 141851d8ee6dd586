from dataclasses import replace

import numpy as np
import pytest

from dlbricks_core.bricks import BrickSet, extract, signature
from dlbricks_core.bricks.signature import with_weights_reread
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, read_model, to_onnx
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize


def whole(model):
    return signature(model, range(len(model.layers)))


def one_layer(op, inputs, outputs, attributes=None, weights=(), constants=None, domain=""):
    tensors = {**inputs, **outputs}
    return CanonicalModel(
        "one",
        (Layer(op, tuple(inputs), tuple(outputs), attributes or {}, domain=domain),),
        tuple(n for n in inputs if n not in weights),
        tuple(outputs),
        tensors,
        frozenset(weights),
        constants or {},
    )


F = lambda *shape: TensorSpec("float32", shape)  # noqa: E731


def test_names_do_not_change_the_signature(residual):
    assert whole(residual(prefix="a_")) == whole(residual(prefix="something/else:"))


def test_shapes_types_operators_and_attributes_change_the_signature():
    base = one_layer("Relu", {"x": F(1, 8)}, {"y": F(1, 8)})
    others = [
        one_layer("Sigmoid", {"x": F(1, 8)}, {"y": F(1, 8)}),
        one_layer("Relu", {"x": F(8, 1)}, {"y": F(8, 1)}),
        one_layer(
            "Relu", {"x": TensorSpec("float16", (1, 8))}, {"y": TensorSpec("float16", (1, 8))}
        ),
        one_layer("Relu", {"x": F(1, 8)}, {"y": F(1, 8)}, {"alpha": 1.0}),
        one_layer("Relu", {"x": F(1, 8)}, {"y": F(1, 8)}, domain="com.example"),
        one_layer("Relu", {"x": F(1, 8)}, {"y": F(1, 8)}, weights=("x",)),
    ]
    signatures = {whole(base), *map(whole, others)}
    assert len(signatures) == 1 + len(others)


def test_types_of_attributes_change_the_signature():
    a, b, c = (whole(one_layer("Op", {"x": F(1)}, {"y": F(1)}, {"k": k})) for k in (1, 1.0, "1"))
    assert len({a, b, c}) == 3


def test_values_of_parameters_change_the_signature_and_values_of_weights_do_not():
    def reshape(target):
        value = np.array(target, dtype=np.int64)
        return one_layer(
            "Reshape",
            {"x": F(2, 6), "shape": TensorSpec("int64", (2,))},
            {"y": F(3, 4)},
            weights=("shape",),
            constants={"shape": value},
        )

    def add(value):
        return one_layer(
            "Add",
            {"x": F(2, 6), "w": F(1)},
            {"y": F(2, 6)},
            weights=("w",),
            constants={"w": np.array([value], dtype=np.float32)},
        )

    assert whole(reshape([3, 4])) != whole(reshape([4, 3]))
    assert whole(add(1.0)) == whole(add(2.0))


def test_the_same_tensor_read_twice_is_other_work_than_two_tensors():
    twice = CanonicalModel(
        "m", (Layer("Add", ("x", "x"), ("y",)),), ("x",), ("y",), {"x": F(4), "y": F(4)}
    )
    two = one_layer("Add", {"a": F(4), "b": F(4)}, {"y": F(4)})
    assert whole(twice) != whole(two)


def test_topology_changes_the_signature(builder):
    def diamond(crossed):
        b = builder()
        x = b.relu(b.input)
        y = b.relu(x)
        b.sum(x if crossed else y, y)
        return b.model()

    assert whole(diamond(True)) != whole(diamond(False))


def test_which_results_are_read_outside_changes_the_signature(builder):
    b = builder()
    x = b.relu(b.input)
    y = b.relu(x)
    b.sum(x, y)
    branching = b.model()
    c = builder()
    y = c.relu(c.relu(c.input))
    c.sum(y, y)
    # Both pairs are relu-relu, but one has to keep its inner result.
    assert signature(branching, (0, 1)) != signature(c.model(), (0, 1))


def test_a_layer_has_one_signature_wherever_its_result_goes(builder):
    b = builder()
    x = b.relu(b.input)
    y = b.relu(x)
    b.sum(x, y)
    model = b.model()
    assert signature(model, (0,)) == signature(model, (1,))


def test_opaque_layers_are_never_the_same():
    layers = tuple(Layer("Loop", (n,), (f"{n}_out",), opaque="subgraph", name=n) for n in "ab")
    tensors = {name: F(4) for n in "ab" for name in (n, f"{n}_out")}
    model = CanonicalModel("m", layers, ("a", "b"), ("a_out", "b_out"), tensors)
    assert signature(model, (0,)) != signature(model, (1,))


def test_opaque_layers_keep_their_own_reasons():
    tensors = {name: F(4) for name in ("x", "y")}
    found = {
        signature(CanonicalModel("m", (Layer("If", ("x",), ("y",), opaque=reason),), ("x",), ("y",),
                                 tensors), (0,))
        for reason in ("subgraph", "subgraph, decided by the input x")
    }  # fmt: skip
    assert len(found) == 2


def test_extracted_bricks_keep_their_signature_and_no_names(residual):
    model = residual(prefix="secret_")
    for granularity in (1, 2, 3, 5):
        bricks = BrickSet.of([model], granularity)
        for identity, brick in bricks.bricks.items():
            assert whole(brick.model) == identity
            assert "secret" not in str(brick.model.layers) + str(brick.model.tensors)


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet50", "shufflenet", "inception_v2", "densenet121"])
def test_signatures_survive_a_round_trip_through_onnx(name):
    model = normalize(LightModels().load(name))
    for identity, brick in BrickSet.of([model], 3).bricks.items():
        proto = to_onnx(brick.model, materialize(brick.model).weights)
        assert whole(normalize(read_model(proto, name="again"))) == identity


def test_weights_and_producer_of_a_real_network_do_not_change_signatures():
    import onnx

    from dlbricks_core.importers.light import _folder

    model = normalize(LightModels().load("squeezenet"))
    proto = onnx.load(_folder() / "light_squeezenet.onnx")
    proto.producer_name, proto.graph.name = "somebody else", "other"
    for node in proto.graph.node:
        node.name = f"renamed_{node.name}"
    changed = normalize(read_model(proto, name="changed"))
    other_weights = replace(changed, constants={})
    assert whole(changed) == whole(model)
    assert {"Conv", "Softmax"} <= {layer.op for layer in other_weights.layers}
    assert set(BrickSet.of([model]).bricks) == set(BrickSet.of([changed]).bricks)


def test_repetition_within_and_across_models():
    first, second = (normalize(LightModels().load(n)) for n in ("resnet50", "vgg19"))
    bricks = BrickSet.of([first, second, first])
    assert bricks.layers == 2 * len(first.layers) + len(second.layers)
    assert bricks.unique_layers < len(first.layers) / 2
    assert len(bricks.bricks) == bricks.unique_layers
    counts = bricks.models[0].counts
    assert sum(counts.values()) == len(first.layers)


def test_extract_rounds_scalars_and_drops_weights(builder):
    b = builder()
    scale = b.weight(1, value=np.array([0.12345], dtype=np.float32))
    vector = b.weight(4, 1, 1, value=np.arange(4, dtype=np.float32).reshape(4, 1, 1))
    b.add("Mul", b.add("Mul", b.input, scale), vector)
    model = extract(b.model(), (0, 1), "brick")
    assert [float(v[0]) for v in model.constants.values()] == [pytest.approx(0.12)]


def scaled(factor):
    model = one_layer("Mul", {"x": F(2, 3), "f": F()}, {"y": F(2, 3)}, weights=("f",))
    return replace(model, constants={"f": np.array(factor, dtype=np.float32)})


def test_a_whole_model_keeps_its_numbers_and_bricks_do_not():
    bricks = BrickSet.of([scaled(0.7978845), scaled(0.8), scaled(0.7071067)])
    (brick,) = bricks.bricks.values()
    exact, rounded, other = (cut.whole for cut in bricks.models)
    assert brick.model.constants["w0"] == np.float32(0.8)
    assert exact.model.constants["w0"] == np.float32(0.7978845)
    assert other.model.constants["w0"] == np.float32(0.7071067)
    assert len({each.signature for each in (exact, rounded, other)}) == 3
    rounds = [signature(with_weights_reread(scaled(n)), [0]) for n in (0.8, 0.7071067)]
    assert [rounded.signature] * 2 == rounds  # of whole models as small as these
