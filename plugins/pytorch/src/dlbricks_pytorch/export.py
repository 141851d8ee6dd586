"""Torch modules and exported programs to ONNX, without their weights."""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import onnx_ir
import torch
from onnx import ModelProto
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import OutputKind
from torch.onnx._internal.exporter._registration import ONNXRegistry
from torch.utils import _pytree as pytree

from dlbricks_core.errors import ModelError
from dlbricks_core.ir.onnx_reader import MAX_CONSTANT_ELEMENTS
from dlbricks_pytorch.causes import chain, noted_place, one_line, place, told
from dlbricks_pytorch.meta import on_cpu
from dlbricks_pytorch.translations import OPSET, translations

#: Namespaces of operators that are torch's own.
OWN = frozenset(("aten", "prims", "prim", "quantized", "quantized_decomposed", "higher_order"))


def trace(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any = None,
) -> torch.export.ExportedProgram:
    """The module's graph for inference; the module itself stays unchanged.

    Raises:
        ModelError: If torch cannot trace the module.
    """
    training = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        # With gradients enabled, and with this declared, torch keeps attention and encoder layers,
        # for which it would otherwise use an undocumented operator.
        with (
            _quiet(),
            _without_fast_path(),
            torch.enable_grad(),
            on_cpu(module, args, kwargs) as (positional, named),
        ):
            return torch.export.export(
                module, tuple(positional), dict(named), dynamic_shapes=dynamic_shapes, strict=False
            )
    except (Exception, SystemExit) as error:  # whatever the module and torch's passes raise
        reason, hint = told(error)
        raise ModelError(
            f"torch.export cannot follow {type(module).__name__}{place(error)}: {reason}", hint=hint
        ) from error
    finally:
        for each, was_training in training:
            each.training = was_training


def to_program(program: torch.export.ExportedProgram) -> torch.onnx.ONNXProgram:
    """The program in ONNX, layer by layer as its author wrote it, weights included.

    Args:
        program: The program. Copies of attention results are added to it, and results that are not
            tensors are removed.

    Raises:
        ModelError: If ONNX has no counterpart of an operator, or no result is a tensor.
    """
    _settle_strides(program)
    _drop_constant_results(program)
    try:
        with _quiet(), _known_operators():
            result = torch.onnx.export(
                program,
                dynamo=True,
                optimize=False,  # it would fold BatchNormalization
                verbose=False,
                opset_version=OPSET,
                custom_translation_table=translations(program),
            )
    except Exception as error:  # torch.onnx raises whatever its translations raise
        raise _untranslated(error) from error
    assert result is not None
    return result


def _untranslated(error: Exception) -> ModelError:
    """The error that names the operator, with its place in the user's code."""
    *_, cause = chain(error)
    node = _node_at(error)
    hint = "Write that part with operators that torch.onnx supports."
    if node is None:
        return ModelError(f"torch.onnx cannot translate the program: {one_line(cause)}", hint=hint)
    target = node.target
    custom = isinstance(target, torch._ops.OpOverload) and target.namespace not in OWN
    name = target.name().removesuffix(".default") if custom else str(target)
    where = f"{'the custom operator ' * custom}{name}{noted_place(node.stack_trace or '')}"
    if type(cause).__name__ == "DispatchError":
        return ModelError(f"torch.onnx has no translation of {where}", hint=hint)
    return ModelError(f"torch.onnx cannot translate {where}: {one_line(cause)}", hint=hint)


def _node_at(error: BaseException) -> torch.fx.Node | None:
    """The node that torch.onnx was translating."""
    for each in chain(error):
        for frame, _ in traceback.walk_tb(each.__traceback__):
            node = frame.f_locals.get("node")
            if isinstance(node, torch.fx.Node) and node.op == "call_function":
                return node
    return None


def _drop_constant_results(program: torch.export.ExportedProgram) -> None:
    """Removes results that are not tensors, because torch.onnx fails at numbers.

    Raises:
        ModelError: If no result remains.
    """
    output = program.graph.output_node()
    results = output.args[0]
    assert isinstance(results, Sequence)
    kept = [i for i, result in enumerate(results) if isinstance(result, torch.fx.Node)]
    if not kept:
        raise ModelError("it returns no tensor", hint="See what its forward method returns.")
    if len(kept) == len(results):
        return
    output.args = (tuple(results[i] for i in kept),)
    specs = program.graph_signature.output_specs
    specs[:] = [specs[i] for i in kept]
    call = program.module_call_graph[0].signature
    assert call is not None
    count = sum(spec.kind == OutputKind.USER_OUTPUT for spec in specs)
    call.out_spec = pytree.tree_structure((0,) * count)


def _settle_strides(program: torch.export.ExportedProgram) -> None:
    """Inserts copies of attention results; to ONNX a copy is the same tensor.

    torch traces a reshape after attention as a view where the strides of one of its kernels allow
    that. When torch.onnx then decomposes the program, strides differ, and T5, BEiT and SAM fail
    with "Cannot view a tensor".
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
def _known_operators() -> Iterator[None]:
    """Lets torch.onnx read the sources of its own translations once in a process.

    It would read all 500 for each program, which takes longer than a small program's export.
    """
    own = ONNXRegistry.__dict__["from_torchlib"]

    def known(_: type[ONNXRegistry], **opset: int) -> ONNXRegistry:
        registry = copy.copy(_registry(own, **opset))
        # Each export adds translations of its own.
        registry.functions = {name: [*each] for name, each in registry.functions.items()}
        return registry

    ONNXRegistry.from_torchlib = classmethod(known)
    try:
        yield
    finally:
        ONNXRegistry.from_torchlib = own


@cache
def _registry(own: Any, **opset: int) -> ONNXRegistry:
    found: ONNXRegistry = own.__get__(None, ONNXRegistry)(**opset)
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the exporter's remarks on optional packages and deprecated internals."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
