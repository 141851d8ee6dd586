"""The table of operators: each operator has a row, and each row agrees with the definition."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import onnx.defs
import pytest
from dlbricks_contrib.expand import DEFINITIONS
from dlbricks_contrib.operators import OPERATORS as CONTRIB
from dlbricks_prediction.features import Features, flops_of
from dlbricks_prediction.patterns import _PATTERNS
from dlbricks_testing.cases import build
from dlbricks_testing.operators import UNDEFINED

from dlbricks_core import operators
from dlbricks_core.analysis import layer_bytes, layer_flops
from dlbricks_core.ir import CANONICAL_OPSET, Layer
from dlbricks_core.operators import Lacks, Operator, Traffic, operator, standing_for
from dlbricks_core.operators.others import DOMAIN as CLASSICAL
from dlbricks_core.operators.table import TABLES, added_rows
from dlbricks_core.passes.evaluate import _FUNCTIONS
from dlbricks_core.passes.forms.canonicalize import CANONICAL
from dlbricks_core.passes.forms.form import UPGRADES
from dlbricks_core.values import materialize

VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
OLD = ("Scatter", "Upsample")
"""Operators without a definition in the canonical operator set, which upgrades replace."""


def schemas():
    """Definition of each operator that layers may have, by its name in the table."""
    found = {
        name: onnx.defs.get_schema(name)
        for name in {each.name for each in onnx.defs.get_all_schemas() if not each.domain}
        if onnx.defs.has(name, CANONICAL_OPSET, "") or name not in OLD
    }
    found |= {
        f"{CLASSICAL}.{each.name}": each
        for each in onnx.defs.get_all_schemas()
        if each.domain == CLASSICAL
    }
    for (domain, name), each in CONTRIB.items():
        found[f"{domain}.{name}" if domain else name] = each.schema
    return {name: schema for name, schema in sorted(found.items()) if not schema.deprecated}


SCHEMAS = schemas()
OPERATORS = {**operators.OPERATORS, **added_rows()}
FACTS = [each.name for each in fields(Operator)]


def test_every_operator_of_the_canonical_operator_set_is_looked_at():
    assert len(SCHEMAS) > 230
    assert {"Conv", "RMSNormalization", "com.microsoft.QMoE"} <= SCHEMAS.keys()


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_operator_has_each_fact_or_says_why_not(name):
    row = OPERATORS[name]
    for fact in FACTS:
        value = getattr(row, fact)
        assert not isinstance(value, Lacks) or len(value.reason) > 10, fact
    assert isinstance(row.kind, Lacks) or row.kind


@pytest.mark.parametrize("name", SCHEMAS)
def test_facts_are_given_for_each_input(name):
    row, formals = OPERATORS[name], SCHEMAS[name].inputs
    repeats = bool(formals) and formals[-1].option == VARIADIC
    assert bool(row.repeated) == repeats
    if name != "com.microsoft.QLinearConcat":  # its last formal stands for three inputs
        assert len(row.inputs) == len(formals)


def test_every_row_is_of_an_operator():
    trees = {f"{CLASSICAL}.TreeEnsemble{kind}" for kind in ("Classifier", "Regressor")}
    blocked = {f"com.microsoft.nchwc.{op}" for op in ("Conv", "ReorderInput", "ReorderOutput")}
    # Trees are deprecated and common; ONNX Runtime inserts layers in blocked layouts itself.
    assert set(OPERATORS) - set(SCHEMAS) == {*OLD, *trees, *blocked}


def test_no_operator_has_two_rows():
    rows = [op for table in (*TABLES, added_rows()) for op in table]
    assert len(rows) == len(set(rows)) == len(OPERATORS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_random_numbers_are_never_folded(name):
    is_random = "seed" in SCHEMAS[name].attributes and name != "Dropout"
    assert not (is_random and OPERATORS[name].folded)


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_attribute_that_names_the_type_is_one_of_the_operator(name):
    named = OPERATORS[name].typed_by
    assert not named or named in SCHEMAS[name].attributes


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_chosen_floating_point_type_is_known(name):
    """Where a result has the type of no input, the row says which attribute names it."""
    schema, row = SCHEMAS[name], OPERATORS[name]
    if "." in name or not schema.outputs or name == "BitCast":
        return
    (first, *_), read = schema.outputs, {formal.type_str for formal in schema.inputs}
    chosen = {"dtype", "to", "output_datatype", "value"} & set(schema.attributes)
    floats = {"tensor(float)", "tensor(float16)"} <= set(first.types)
    if first.type_str not in read and floats and chosen and name != "Constant":
        assert row.typed_by in chosen


def test_patterns_of_memory_access_exist():
    assert {row.access for row in OPERATORS.values()} == {"", "spread", *_PATTERNS}


def test_views_move_nothing_and_compute_nothing():
    for name, row in OPERATORS.items():
        assert (row.kind == "view") == (row.traffic is Traffic.VIEW), name


def test_arguments_of_a_domain_are_drawn_from_it():
    for name, row in OPERATORS.items():
        for each in row.inputs:
            assert each.valid is None or each.drawn is not None, name


def test_weights_make_up_for_power_where_results_have_power_one():
    for name, row in OPERATORS.items():
        if any(each.compensates for each in row.inputs) and name != "com.microsoft.Attention":
            assert row.power.__name__ in ("unit", "_of_factors"), name


@pytest.mark.parametrize("implemented", [CANONICAL, UPGRADES, _FUNCTIONS])
def test_passes_implement_operators_that_have_a_row(implemented):
    assert set(implemented) <= set(OPERATORS)


def test_definitions_are_of_operators_that_have_a_row():
    named = {f"{domain}.{op}" if domain else op for domain, op in DEFINITIONS}
    assert named <= set(OPERATORS)


def test_an_operator_in_a_domain_of_a_framework_is_the_plain_one():
    layer = Layer("FusedConv", ("x", "w"), ("y",), domain="com.example")
    assert standing_for(layer) is OPERATORS["Conv"]
    assert operator(layer.qualified_op) is operator("com.example.Nothing")


def test_inputs_of_a_variadic_operator_repeat():
    joined = operator("com.microsoft.QLinearConcat")
    assert [at for at in range(9) if joined.input(at).zero_point] == [1, 4, 7]
    assert [at for at in range(9) if joined.input(at).drawn] == [0, 3, 6]


# Operators that one place or another had missed


def only(text):
    """A model of one layer, and the layer."""
    model = build(text).model
    (layer,) = model.layers
    return model, layer


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        ("(float[2,3,4,8] x, float[8] w1) => (y) { y = RMSNormalization(x, w1) }", 4 * 192),
        ("(float[2,3] x) => (y) { y = Swish(x) }", 6),
        ("(float[2,3] x) => (y) { y = Hardmax(x) }", 6),
        ("(float[1,2,3,8] q, float[1,2,5,8] k, float[1,2,5,4] v) => (y)"
         " { y = Attention(q, k, v) }", 2 * 3 * 5 * (2 * 8 + 2 * 4 + 5)),
        ("(float[4,5] x) => (y) { y = ReduceLogSum<keepdims=1>(x) }", 20),
    ],
)  # fmt: skip
def test_operations_that_no_rule_counted(text, flops):
    model, layer = only(text)
    assert layer_flops(model, layer) == flops


def test_features_count_operations_as_when_contributions_were_measured():
    model, layer = only("(float[2,3,4,8] x, float[8] w1) => (y) { y = RMSNormalization(x, w1) }")
    assert flops_of(model, layer) == 192
    assert Features.of(model).kinds == ("normalization:row",)


def test_weights_of_a_fused_convolution_keep_the_magnitude_like_those_of_a_plain_one():
    model = build(UNDEFINED["FusedConv"]).model
    (layer,) = model.layers
    weight = materialize(model).weights[layer.inputs[1]]
    assert weight.var() == pytest.approx(1 / np.prod(weight.shape[1:]), rel=0.2)


def test_embeddings_of_codes_read_rows_of_their_tables_alone():
    codes = "uint8[100,16] w1, uint8[20,16] w2, uint8[16] w3, uint8[16] w4"
    scales = ", ".join(f"float[1] w{at}" for at in (5, 6, 7, 8))
    zeros = ", ".join(f"uint8[1] w{at}" for at in (11, 12, 13, 14))
    model, layer = only(
        f"(int32[2,5] i, {codes}, {scales}, {zeros}) => (y, m)"
        " { y, m = com.microsoft.QEmbedLayerNormalization"
        '(i, "", w1, w2, "", w3, w4, "", w5, w6, "", w7, w8, w11, w12, "", w13, w14) }'
    )
    table = layer.inputs[2]
    spec = model.tensors[table]
    larger = replace(spec, shape=(10 * spec.sizes[0], *spec.sizes[1:]))
    wide = replace(model, tensors={**model.tensors, table: larger})
    assert layer_bytes(wide, layer) == layer_bytes(model, layer)
    assert layer_flops(model, layer)


@pytest.mark.parametrize("op", ["ArgMin", "Erf", "Hardmax", "Softsign", "Softmax"])
def test_operators_that_can_hide_a_difference(op):
    assert operator(op).saturates
