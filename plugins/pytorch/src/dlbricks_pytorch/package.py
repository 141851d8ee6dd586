"""Program files, read without unpickling anything and without their large weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import (
    _SERIALIZE_TO_TORCH_DTYPE,
    ExportedProgramDeserializer,
    _dict_to_dataclass,
)
from torch.export.graph_signature import InputKind

from dlbricks_core.errors import ModelError
from dlbricks_core.ir.onnx_reader import MAX_CONSTANT_ELEMENTS
from dlbricks_pytorch.archive import Archive, model_of, program_entry
from dlbricks_pytorch.serialized import checked

_PAYLOADS = (
    "data/weights/{model}_weights_config.json",
    "data/constants/{model}_constants_config.json",
)
_HINT = "Write it again with torch.export.save(torch.export.export(module, inputs), path)."

Values = Mapping[str, torch.Tensor]


def load_program(path: Path) -> torch.export.ExportedProgram:
    """The program in a file, with values for its small weights only.

    The others are fake tensors: they have sizes and take no memory. Example inputs, which are
    pickled, are not read.

    Raises:
        ModelError: If the file is damaged, or has objects that only a pickle can restore.
    """
    with Archive(path) as archive:
        entry = program_entry(archive.names)
        if entry is None:
            raise ModelError("it holds no program", hint=_HINT)
        described, model = archive.json(entry), model_of(entry)
        values = _small_values(archive, model) if model else {}
    serialized = _guarded("program", partial(_program, described))
    return _guarded("program", lambda: _deserialized(checked(serialized), values))


def _guarded(what: str, read: Callable[[], Any]) -> Any:
    """Result of a reader of torch. Any exception becomes an error for users."""
    try:
        return read()
    except ModelError:
        raise
    except Exception as error:  # readers of unchecked JSON may raise any exception
        lines = str(error).strip().splitlines() or [""]
        raise ModelError(
            f"its {what} is damaged, or none that torch {torch.__version__} can read: "
            f"{type(error).__name__}: {lines[-1].strip()[:200]}",
            hint=_HINT,
        ) from error


def _program(described: Any) -> Any:
    return _dict_to_dataclass(schema.ExportedProgram, described)


def _small_values(archive: Archive, model: str) -> dict[str, torch.Tensor]:
    """Weights of few elements by name: shapes and scalars may hang on them.

    Raises:
        ModelError: If a weight is pickled, or lies outside of its own record.
    """
    values = {}
    for form in _PAYLOADS:
        entry = form.format(model=model)
        if entry not in archive.names:
            continue
        read = partial(_dict_to_dataclass, schema.PayloadConfig, archive.json(entry))
        folder = entry.rpartition("/")[0]
        for name, meta in _guarded("list of weights", read).config.items():
            read = partial(_small_value, archive, folder, name, meta)
            value = _guarded(f"weight {str(name)[:60]!r}", read)
            if value is not None:
                values[name] = value
    return values


def _small_value(
    archive: Archive, folder: str, name: str, meta: schema.PayloadMeta
) -> torch.Tensor | None:
    if meta.use_pickle or meta.tensor_meta is None:
        raise ModelError(
            f"its weight {name[:60]!r} is pickled, and a pickle may run code",
            hint="Export the module with plain tensors for weights.",
        )
    described = meta.tensor_meta
    sizes = [size.as_int for size in described.sizes]
    record = f"{folder}/{meta.path_name}"
    if math.prod(sizes) > MAX_CONSTANT_ELEMENTS or not archive.size(record):
        return None
    dtype = _SERIALIZE_TO_TORCH_DTYPE[described.dtype]
    if archive.size(record) > 16 * MAX_CONSTANT_ELEMENTS:
        return None  # a small view of a large tensor
    flat = torch.frombuffer(bytearray(archive.values(record)), dtype=dtype)
    strides = [stride.as_int for stride in described.strides]
    return flat.as_strided(sizes, strides, described.storage_offset.as_int)


def _deserialized(
    serialized: schema.ExportedProgram, values: Values
) -> torch.export.ExportedProgram:
    specs = serialized.graph_module.signature.input_specs
    parameters = {spec.parameter.parameter_name for spec in specs if spec.type == "parameter"}
    persistent = {s.buffer.buffer_name for s in specs if s.type == "buffer" and s.buffer.persistent}
    others = {s.buffer.buffer_name for s in specs if s.type == "buffer"} - persistent
    others |= {
        spec.tensor_constant.tensor_constant_name
        for spec in specs
        if spec.type == "tensor_constant"
    }
    nothing = torch.empty(0)
    program = ExportedProgramDeserializer().deserialize(
        serialized,
        {name: torch.nn.Parameter(nothing) for name in parameters}
        | dict.fromkeys(persistent, nothing),
        dict.fromkeys(others, nothing),
        None,
    )
    _fill(program, values)
    return program


def _fill(program: torch.export.ExportedProgram, values: Values) -> None:
    """Gives weights their values, or the fake tensors that stand for them in the graph."""
    held = {
        InputKind.PARAMETER: program.state_dict,
        InputKind.BUFFER: program.state_dict,
        InputKind.CONSTANT_TENSOR: program.constants,
    }
    metas = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    for spec in program.graph_signature.input_specs:
        tensors: Any = held.get(spec.kind)
        if tensors is None or spec.target is None:
            continue
        if spec.kind == InputKind.BUFFER and not spec.persistent:
            tensors = program.constants
        fake = metas[spec.arg.name]
        value = values.get(spec.target, fake)
        if (value.dtype, tuple(value.shape)) != (fake.dtype, tuple(fake.shape)):
            raise ModelError(
                f"its weight {spec.target!r} is {tuple(value.shape)} in one place and "
                f"{tuple(fake.shape)} in another",
                hint=_HINT,
            )
        is_parameter = spec.kind == InputKind.PARAMETER
        tensors[spec.target] = torch.nn.Parameter(value, False) if is_parameter else value
