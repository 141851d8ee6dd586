"""Torch modules and exported programs to ONNX, without their weights."""

from __future__ import annotations

import contextlib
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir
import torch
from onnx import ModelProto
from torch._subclasses.fake_tensor import FakeTensor

from dlbricks_core.errors import ModelError
from dlbricks_core.ir.onnx_reader import MAX_CONSTANT_ELEMENTS
from dlbricks_pytorch.translations import OPSET, translations


def trace(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any = None,
) -> torch.export.ExportedProgram:
    """The module's graph for inference; the module itself stays as it was.

    Raises:
        ModelError: If torch cannot follow what the module does.
    """
    training = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        # With gradients enabled, and told so, torch leaves attention and encoder layers as
        # they are, where it would take an undocumented operator instead of them.
        with _quiet(), _without_fast_path(), torch.enable_grad():
            return torch.export.export(
                module, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
            )
    except Exception as error:  # torch raises whatever the module and its own passes raise
        raise ModelError(
            f"torch.export cannot follow {type(module).__name__}: {_first_line(error)}",
            hint="See that module(*inputs) runs, and that its control flow needs no values "
            "of tensors.",
        ) from error
    finally:
        for each, was_training in training:
            each.training = was_training


def to_program(program: torch.export.ExportedProgram) -> torch.onnx.ONNXProgram:
    """The program in ONNX, layer by layer as its author wrote it, weights included.

    Args:
        program: Copies of what attention gives are added to it.

    Raises:
        ModelError: If ONNX has no counterpart of an operator.
    """
    _settle_strides(program)
    try:
        with _quiet():
            result = torch.onnx.export(
                program,
                dynamo=True,
                optimize=False,  # it would fold BatchNormalization
                verbose=False,
                opset_version=OPSET,
                custom_translation_table=translations(program),
            )
    except Exception as error:  # torch.onnx raises whatever its translations raise
        cause = _root(error)
        raise ModelError(
            f"torch.onnx cannot translate the program: {_first_line(cause)}",
            hint="Write that part with operators that torch.onnx knows.",
        ) from error
    assert result is not None
    return result


def _settle_strides(program: torch.export.ExportedProgram) -> None:
    """Has what attention gives copied; to ONNX that is the same tensor.

    torch traces a reshape after attention as a view where the strides of one of its kernels
    allow that. When torch.onnx then takes the program apart, strides are others, and T5, BEiT
    and SAM end in "Cannot view a tensor".
    """
    graph = program.graph
    attention = torch.ops.aten.scaled_dot_product_attention.default
    for node in graph.find_nodes(op="call_function", target=attention):
        users = list(node.users)
        with graph.inserting_after(node):
            settled = graph.call_function(
                torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format}
            )
        settled.meta = dict(node.meta)
        for user in users:
            user.replace_input_with(node, settled)


def to_proto(program: torch.export.ExportedProgram) -> ModelProto:
    """The program as an ONNX protobuf whose large weights are only named, not copied.

    Raises:
        ModelError: If ONNX has no counterpart of an operator.
    """
    model = to_program(program).model
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and not _is_kept(tensor):
            value.const_value = onnx_ir.ExternalTensor(
                "left-out", None, None, tensor.dtype, shape=tensor.shape, name=value.name or ""
            )
    return onnx_ir.to_proto(model)


def _is_kept(tensor: Any) -> bool:
    return math.prod(tensor.shape) <= MAX_CONSTANT_ELEMENTS and not isinstance(
        getattr(tensor, "raw", None), FakeTensor
    )


@contextlib.contextmanager
def _without_fast_path() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on optional packages and deprecated internals."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
