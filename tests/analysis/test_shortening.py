"""Short models: what is made of a few repeated blocks, expanded, is what is made of all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_decoders.onnx_files import DecoderShape, write_decoder
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.analysis.shortening import (
    KEPT,
    NotRepeatedError,
    longest_repeat,
    rewritten_short,
    same_structure,
    shorten,
)
from dlbricks_core.bricks import BrickSet, in_layout, native
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.host import canonical
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

SPEC = TensorSpec("float32", (1, 8))
WEIGHT = TensorSpec("float32", (8, 8))


class Chain:
    """Builds models of blocks; a block is a text with a letter for each layer."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.tensors = {"x": SPEC, "shared": SPEC}
        self.weights: set[str] = set()
        self.inputs = ["x", "shared"]
        self.outputs: list[str] = []
        self.constants: dict[str, np.ndarray] = {}
        self.last = "x"
        self.before = "x"

    def add(self, op: str, *inputs: str) -> str:
        name = f"{op.lower()}{len(self.layers)}"
        self.layers.append(Layer(op, inputs, (name,), name=name))
        self.tensors[name] = SPEC
        self.last = name
        return name

    def blocks(self, *blocks: str) -> Chain:
        for block in blocks:
            begin = self.last
            for letter in block:
                self.letter(letter, begin)
            self.before = begin
        return self

    def letter(self, letter: str, begin: str) -> None:
        number = len(self.layers)
        if letter in "RA":
            self.add({"R": "Relu", "A": "Abs"}[letter], self.last)
        elif letter == "W":  # a weight of its own
            self.weights.add(weight := f"w{number}")
            self.tensors[weight] = WEIGHT
            self.add("MatMul", self.last, weight)
        elif letter == "S":  # what all blocks read
            self.add("Mul", self.last, "shared")
        elif letter == "+":  # what the block began with
            self.add("Add", self.last, begin)
        elif letter == "-":  # what the block before began with
            self.add("Sub", self.last, self.before)
        elif letter == "I":  # an input of its own
            self.inputs.append(given := f"past{number}")
            self.tensors[given] = SPEC
            self.add("Add", self.last, given)
        elif letter == "O":  # an output in the middle
            self.outputs.append(self.add("Neg", self.last))
        elif letter == "B":  # a small vector of its own, whose values are known
            self.weights.add(weight := f"w{number}")
            self.tensors[weight] = TensorSpec("float32", (8,))
            self.constants[weight] = np.arange(8, dtype=np.float32) + number
            self.add("Add", self.last, weight)
        elif letter in "123":  # a number of its own
            self.weights.add(weight := f"w{number}")
            self.tensors[weight] = TensorSpec("float32", ())
            self.constants[weight] = np.array(float(letter), np.float32)
            self.add("Mul", self.last, weight)

    def model(self) -> CanonicalModel:
        outputs = (*self.outputs, self.last)
        return CanonicalModel(
            "chain", tuple(self.layers), tuple(self.inputs), tuple(dict.fromkeys(outputs)),
            self.tensors, frozenset(self.weights), self.constants, {"": 21},
        )  # fmt: skip


def chain(*blocks: str) -> CanonicalModel:
    return Chain().blocks(*blocks).model()


def fusing(model: CanonicalModel) -> CanonicalModel:
    """A backend that looks at neighbours: it fuses, packs weights, and makes up names."""
    layers: list[Layer] = []
    tensors, weights = dict(model.tensors), set(model.weights)
    skip = False
    for i, layer in enumerate(model.layers):
        if skip:
            skip = False
            continue
        following = model.layers[i + 1] if i + 1 < len(model.layers) else None
        readers = model.consumers.get(layer.outputs[0], ())
        fits = following is not None and readers == (i + 1,)
        fits = fits and layer.outputs[0] not in model.output_names
        if fits and (layer.op, following.op) in {("Add", "Relu"), ("Add", "Abs"), ("Mul", "Add")}:
            others = (n for n in following.inputs if n != layer.outputs[0])
            inputs = (*layer.inputs, *others)
            fused = replace(following, op=layer.op + following.op, domain="vendor", inputs=inputs)
            layers.append(fused)
            skip = True
        elif layer.op == "MatMul":
            packed, blocked = f"packed_{len(layers)}", f"made_{len(layers)}"
            weights.add(packed)
            tensors |= {packed: WEIGHT, blocked: SPEC}
            first = replace(layer, inputs=(layer.inputs[0], packed), outputs=(blocked,))
            layers += [first, Layer("Reorder", (blocked,), layer.outputs, domain="vendor")]
        else:
            layers.append(layer)
    used = {n for each in layers for n in (*each.reads, *each.outputs)} | {*model.inputs}
    made = replace(
        model,
        layers=tuple(layers),
        tensors={name: spec for name, spec in tensors.items() if name in used},
        weights=frozenset(weights & used),
    )
    return native(made.as_raw(), "fusing", model.constants)


def both_ways(model: CanonicalModel) -> tuple[CanonicalModel, CanonicalModel]:
    return fusing(model), rewritten_short(model, fusing)


def check_equal(whole: CanonicalModel, short: CanonicalModel, model: CanonicalModel) -> None:
    """The graphs are equal, in the order of layers and in all names that are the model's."""
    assert same_structure(whole, short)
    assert (short.inputs, short.outputs) == (whole.inputs, whole.outputs)
    for one, two in zip(whole.layers, short.layers, strict=True):
        for a, b in zip((*one.inputs, *one.outputs), (*two.inputs, *two.outputs), strict=True):
            assert a == b or (a not in model.tensors and b not in model.tensors)
            assert whole.tensors.get(a) == short.tensors.get(b)
    read = {name for layer in whole.layers for name in layer.reads}
    known = read & model.constants.keys() & whole.constants.keys()
    assert all((short.constants[name] == whole.constants[name]).all() for name in known)
    for strategy, most in (("chain", 1), ("segments", 128)):
        cuts = [BrickSet.of([model], most, strategy, {0: each}) for each in (whole, short)]
        assert cuts[0].models[0].counts == cuts[1].models[0].counts


@pytest.mark.parametrize(
    "block", ["RA", "WR+", "WRS+", "IWO+R", "W-R", "SAWI+ROW", "W1R+", "WBR", "R", "+"]
)
def test_what_is_made_of_a_few_blocks_is_expanded_to_what_is_made_of_all(block):
    model = chain("AWR", *[block] * 9, "WA")
    check_equal(*both_ways(model), model)


@pytest.mark.long
@given(
    block=st.text("RAWBS+-IO12", min_size=2, max_size=7),
    copies=st.integers(KEPT + 3, 10),
    begin=st.text("RAW", max_size=3),
    end=st.text("RAWS", max_size=3),
)
@settings(max_examples=60)
def test_any_repeating_model_is_rewritten_the_same_in_both_ways(block, copies, begin, end):
    model = chain(begin, *[block] * copies, end)
    try:
        found = both_ways(model)
    except NotRepeatedError:
        return  # then the whole model is asked of
    check_equal(*found, model)


def test_most_repeating_models_are_shortened():
    """The test above would pass if nothing ever was."""
    blocks = ["RA", "WR+", "WRS+", "IWO+R", "W-R", "SAWI+ROW", "AWWR", "WIO"]
    assert all(shorten(chain("A", *[each] * 9, "W")) for each in blocks)


def test_two_repeats_are_both_shortened():
    model = chain("A", *["WR+"] * 9, "AA", *["SWWA+"] * 8, "W")
    shorts = shorten(model)
    assert len(shorts) == 2
    assert len(shorts[-1].model.layers) < 45 < len(model.layers)
    check_equal(*both_ways(model), model)


def test_a_short_model_keeps_the_names_of_its_tensors(tmp_path):
    model = decoder(tmp_path, 9)
    (short,) = shorten(model)
    kept = short.model
    assert kept.inputs[:3] == model.inputs[:3]
    assert kept.outputs[0] == "logits"
    for layer in kept.layers:
        assert all(kept.tensors[n] == model.tensors[n] for n in layer.outputs)
    assert kept.tensors.keys() < model.tensors.keys()
    assert len(kept.inputs) == 1 + 2 * (9 - short.left_out)


def test_blocks_that_differ_in_a_number_are_not_equal():
    assert longest_repeat(chain("A", *["W1R", "W2R"] * 8, "W")).period == 6
    numbers = [f"W{n}R" for n in "1231321323121"]
    assert longest_repeat(chain(*numbers)) is None


def repeated_blocks(model: CanonicalModel) -> int:
    found = longest_repeat(model)
    return 0 if found is None else found.copies


def test_layers_that_nobody_can_look_into_are_no_copies():
    model = chain(*["WR"] * 9)
    opaque = [replace(x, opaque="text") if x.op == "MatMul" else x for x in model.layers]
    assert repeated_blocks(model) == 8  # the first reads an input
    assert repeated_blocks(replace(model, layers=tuple(opaque))) == 0


@pytest.mark.parametrize(("sizes", "copies"), [([2.0] * 9, 7), ([2.0, 4.0, 3.0] * 3, 0)])
def test_parameters_tell_blocks_apart_by_their_values(sizes, copies):
    built = Chain()
    for number, size in enumerate(sizes):
        scales = f"scales{number}"
        built.weights.add(scales)
        built.tensors[scales] = TensorSpec("float32", (2,))
        built.constants[scales] = np.array([1.0, size], np.float32)
        built.add("Resize", built.last, "", scales)
    assert repeated_blocks(built.model()) == copies


def test_an_output_in_the_middle_ends_a_repeat():
    model = chain(*["WR"] * 9)
    inner = model.layers[9].outputs[0]
    assert repeated_blocks(replace(model, outputs=(inner, *model.outputs))) == 4


def test_a_weight_that_other_layers_read_too_is_no_copy():
    model = chain("W", *["WR"] * 9)
    first, *others = model.layers
    tied = replace(first, inputs=(first.inputs[0], model.layers[9].inputs[1]))
    assert repeated_blocks(model) >= 8
    assert repeated_blocks(replace(model, layers=(tied, *others))) <= 5


def test_blocks_that_read_what_was_made_at_other_distances_are_no_copies():
    built = Chain()
    read = [built.add("Abs", "x") for _ in range(9)]
    for name in read:
        built.add("Relu", built.add("Add", built.last, name))
    assert repeated_blocks(built.model()) == 0


def test_a_block_that_reads_one_tensor_where_others_read_two_is_no_copy():
    built = Chain()
    for number in range(9):
        pair = [f"a{number}", "a4" if number == 4 else f"b{number}"]
        built.inputs += dict.fromkeys(pair)
        built.tensors |= dict.fromkeys(pair, SPEC)
        built.add("Mul", built.last, built.add("Add", *pair))
    assert repeated_blocks(built.model()) == 4


def test_results_that_are_read_far_behind_keep_blocks_apart():
    """A dense block reads all blocks before it: leaving some out would make it another one."""
    built = Chain()
    read = ["x"]
    for _ in range(9):
        for name in read:
            built.add("Add", built.last, name)
        read.append(built.last)
    repeat = longest_repeat(built.model())
    assert repeat is None or repeat.copies * repeat.period < 20


def test_what_looks_far_is_not_expanded():
    """A backend that counts blocks makes another thing of each: the whole has to be asked of."""

    def counting(model: CanonicalModel) -> CanonicalModel:
        layers = [
            replace(each, attributes={"number": sum(x.op == "MatMul" for x in model.layers)})
            for each in model.layers
        ]
        return native(replace(model, layers=tuple(layers)).as_raw(), "counting", {})

    with pytest.raises(NotRepeatedError, match="one more block"):
        rewritten_short(chain("A", *["WR+"] * 9, "W"), counting)


def test_layouts_follow_the_names_of_the_model():
    def blocking(model: CanonicalModel) -> CanonicalModel:
        new = {n: in_layout(n, "b") for layer in model.layers[:-1] for n in layer.outputs
               if n not in model.output_names}  # fmt: skip
        layers = tuple(
            replace(each, inputs=tuple(new.get(n, n) for n in each.inputs),
                    outputs=tuple(new.get(n, n) for n in each.outputs))
            for each in model.layers
        )  # fmt: skip
        tensors = {new.get(n, n): spec for n, spec in model.tensors.items()}
        made = replace(model, layers=layers, tensors=tensors)
        return native(made.as_raw(), "blocking", model.constants)

    model = chain("A", *["WR+"] * 9, "W")
    whole, short = blocking(model), rewritten_short(model, blocking)
    assert [each.outputs for each in short.layers] == [each.outputs for each in whole.layers]


def decoder(folder, blocks, **dims) -> CanonicalModel:
    path = write_decoder(folder, DecoderShape(blocks=blocks))
    sizes = {"batch": 1, "sequence": 1, "past": 8, **dims}
    return canonical(OnnxImporter().load(path), LoadOptions(dims=sizes)).model


@pytest.mark.parametrize("dims", [{}, {"sequence": 8, "past": 0}])
def test_decoders_are_shortened(tmp_path, dims):
    model = decoder(tmp_path, 12, **dims)
    check_equal(*both_ways(model), model)
