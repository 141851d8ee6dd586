"""Every operator case of the onnx package: same results in canonical form."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase

from dlbricks_core.errors import ModelError
from dlbricks_core.operators import operator

#: The package makes the cases of an operator where the operator's module is imported. Names of
#: modules are known without that, so that collecting the tests stays quick.
MODULES = [
    each.name for each in pkgutil.walk_packages(node.__path__, f"{node.__name__}.")
    if not each.ispkg
]  # fmt: skip

#: Operators whose cases the reference evaluator computes for seconds.
LONG = {"attention", "linear_attention", "maxpool"}

#: Reason, as its beginning -> cases that are not run in canonical form because of it.
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "BatchNormalization in training mode": (
        "test_batchnorm_epsilon_training_mode",
        "test_batchnorm_example_training_mode",
    ),
    "Dropout in training mode": (
        "test_training_dropout",
        "test_training_dropout_default",
        "test_training_dropout_default_mask",
        "test_training_dropout_mask",
        "test_training_dropout_zero_ratio",
        "test_training_dropout_zero_ratio_mask",
    ),
    "subgraph (FlexAttention)": (
        "test_flexattention_causal_mask",
        "test_flexattention_prob_mod",
        "test_flexattention_relative_positional",
        "test_flexattention_score_mod",
        "test_flexattention_soft_cap",
    ),
    "result that is no tensor": (
        "test_identity_opt",
        "test_identity_sequence",
        "test_if_opt",
        "test_if_seq",
        "test_split_to_sequence_1",
        "test_split_to_sequence_2",
        "test_split_to_sequence_nokeepdims",
    ),
    "data-dependent shape (ImageDecoder)": (
        "test_image_decoder_decode_bmp_rgb",
        "test_image_decoder_decode_jpeg2k_rgb",
        "test_image_decoder_decode_jpeg_bgr",
        "test_image_decoder_decode_jpeg_grayscale",
        "test_image_decoder_decode_jpeg_rgb",
        "test_image_decoder_decode_png_rgb",
        "test_image_decoder_decode_pnm_rgb",
        "test_image_decoder_decode_tiff_rgb",
        "test_image_decoder_decode_webp_rgb",
    ),
    "subgraph (Scan)": ("test_scan_sum",),
    # The reference evaluator swaps pads that differ between the two ends of an axis.
    "AssertionError: y": (
        "test_maxpool_2d_same_lower",
        "test_maxpool_2d_same_upper",
    ),
    "data-dependent shape (NonMaxSuppression)": (
        "test_nonmaxsuppression_center_point_box_format",
        "test_nonmaxsuppression_flipped_coordinates",
        "test_nonmaxsuppression_identical_boxes",
        "test_nonmaxsuppression_iou_threshold_boundary",
        "test_nonmaxsuppression_limit_output_size",
        "test_nonmaxsuppression_single_box",
        "test_nonmaxsuppression_suppress_by_IOU",
        "test_nonmaxsuppression_suppress_by_IOU_and_scores",
        "test_nonmaxsuppression_two_batches",
        "test_nonmaxsuppression_two_classes",
    ),
    "data-dependent shape (NonZero)": ("test_nonzero_example",),
    "model: opset 1 is outside": (
        "test_not_2d",
        "test_not_3d",
        "test_not_4d",
    ),
    "input without a known shape": (
        "test_loop13_seq",
        "test_loop16_seq_none",
        "test_optional_get_element_optional_sequence",
        "test_optional_get_element_sequence",
        "test_sequence_insert_at_back",
        "test_sequence_insert_at_front",
        "test_sequence_map_add_1_sequence_1_tensor_expanded",
        "test_sequence_map_add_2_sequences_expanded",
        "test_sequence_map_extract_shapes_expanded",
        "test_sequence_map_identity_1_sequence_1_tensor_expanded",
        "test_sequence_map_identity_1_sequence_expanded",
        "test_sequence_map_identity_2_sequences_expanded",
    ),
    "subgraph (SequenceMap)": (
        "test_sequence_map_add_1_sequence_1_tensor",
        "test_sequence_map_add_2_sequences",
        "test_sequence_map_extract_shapes",
        "test_sequence_map_identity_1_sequence",
        "test_sequence_map_identity_1_sequence_1_tensor",
        "test_sequence_map_identity_2_sequences",
    ),
    "works on text": (
        "test_ai_onnx_ml_label_encoder_string_int",
        "test_ai_onnx_ml_label_encoder_string_int_no_default",
        "test_ai_onnx_ml_label_encoder_tensor_mapping",
        "test_ai_onnx_ml_label_encoder_tensor_value_only_mapping",
        "test_equal_string",
        "test_equal_string_broadcast",
        "test_regex_full_match_basic",
        "test_regex_full_match_email_domain",
        "test_regex_full_match_empty",
        "test_string_concat",
        "test_string_concat_broadcasting",
        "test_string_concat_empty_string",
        "test_string_concat_utf8",
        "test_string_concat_zero_dimensional",
        "test_string_split_basic",
        "test_string_split_consecutive_delimiters",
        "test_string_split_empty_string_delimiter",
        "test_string_split_empty_tensor",
        "test_string_split_maxsplit",
        "test_string_split_no_delimiter",
        "test_strnormalizer_export_monday_casesensintive_lower",
        "test_strnormalizer_export_monday_casesensintive_nochangecase",
        "test_strnormalizer_export_monday_casesensintive_upper",
        "test_strnormalizer_export_monday_empty_output",
        "test_strnormalizer_export_monday_insensintive_upper_twodim",
        "test_strnormalizer_nostopwords_nochangecase",
    ),
    "data-dependent shape (Unique)": (
        "test_unique_bfloat16_sorted_without_axis",
        "test_unique_length_1",
        "test_unique_not_sorted_without_axis",
        "test_unique_sorted_with_axis",
        "test_unique_sorted_with_axis_3d",
        "test_unique_sorted_with_negative_axis",
        "test_unique_sorted_without_axis",
    ),
}
REASONS = {name: reason for reason, names in EXCEPTIONS.items() for name in names}


def parameters(model: ModelProto) -> set[str]:
    """Tensors whose values are parameters of an operator."""
    return {
        node.input[position]
        for node in model.graph.node
        for position in operator(node.op_type).parameters
        if position < len(node.input)
    }


def array(value: Any) -> Any:
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


@pytest.fixture
def cases(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, TestCase]:
    """Cases of a module by name, whether or not it was imported before."""
    made: list[TestCase] = []
    monkeypatch.setattr(node, "_NodeTestCases", made)
    monkeypatch.setattr(node, "_existing_names", {})
    monkeypatch.setitem(sys.modules, request.param, node)
    del sys.modules[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero while they are made
        importlib.import_module(request.param)
    return {case.name: case for case in made}


def prepared(
    case: TestCase, cases: dict[str, TestCase]
) -> tuple[ModelProto, dict[str, Any], dict[str, int]]:
    """The case's model with parameters as initializers, its other inputs, dynamic sizes."""
    name = case.name
    model = ModelProto()
    model.CopyFrom(case.model)
    for info in model.graph.output:
        info.ClearField("type")  # so that the shapes are found, not taken from the file
    fixed = parameters(model)
    if name.endswith("_expanded") and (whole := cases.get(name.removesuffix("_expanded"))):
        fixed |= parameters(whole.model)
    inputs, dims = {}, {}
    for info, raw in zip(list(model.graph.input), case.data_sets[0][0], strict=True):
        value = array(raw)
        if info.name in fixed and isinstance(value, np.ndarray):
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
            model.graph.initializer[-1].data_type = info.type.tensor_type.elem_type
            model.graph.input.remove(info)
            continue
        inputs[info.name] = value
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if not dim.dim_value:
                dims[dim.dim_param or f"{info.name}.{axis}"] = value.shape[axis]
    return model, inputs, dims


def check_case(case: TestCase, cases: dict[str, TestCase], outcome: Callable[..., str]) -> None:
    """Asserts that a case computes the same, or that it is an exception for its known reason."""
    model, inputs, dims = prepared(case, cases)
    # Zeros and ones that are drawn anew at each run: only their number can be compared.
    atol = 1 if "bernoulli" in case.name else case.atol
    expected = [array(value) for value in case.data_sets[0][1]]
    reason = REASONS.get(case.name, "")
    try:
        found = outcome(model, inputs, expected, case.rtol, atol, dims)
    except ModelError as error:
        found = error.message
    except Exception as error:
        if not reason:
            raise
        found = f"{type(error).__name__}: {error}"
    assert found.startswith(reason) if reason else not found


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(each, marks=pytest.mark.long) if each.rpartition(".")[2] in LONG else each
        for each in MODULES
    ],
    indirect=True,
    ids=lambda module: module.removeprefix(f"{node.__name__}."),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_operator_computes_the_same_in_canonical_form(
    cases: dict[str, TestCase], outcome: Callable[..., str]
) -> None:
    failures = []
    for case in cases.values():
        try:
            check_case(case, cases, outcome)
        except Exception as error:  # noqa: BLE001 - raised below
            error.add_note(case.name)
            failures.append(error)
    if failures:
        raise ExceptionGroup("cases that differ", failures)
