"""Operator definitions of ONNX, looked up once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import onnx.defs
from onnx import helper

from dlbricks_core.ir import CANONICAL_OPSET
from dlbricks_core.ir.model import Attribute
from dlbricks_core.operators.domains import added_operators

_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional


@cache
def definition(op: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """Definition of an operator in an opset, or its first definition if that came later.

    ``None`` for an operator without a definition. Operators that distributions add have one.
    """
    if added := added_operators().get((domain, op)):
        return added.schema
    if onnx.defs.has(op, opset, domain):
        return onnx.defs.get_schema(op, opset, domain)
    versions = _versions(op, domain)
    return onnx.defs.get_schema(op, versions[0], domain) if versions else None


@cache
def domains() -> frozenset[str]:
    """Domains whose operators have definitions: the domains of ONNX, and those of distributions."""
    standard = {schema.domain for schema in onnx.defs.get_all_schemas()}
    return frozenset(standard | {domain for domain, _ in added_operators()})


@cache
def _versions(op: str, domain: str) -> list[int]:
    return sorted(
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == op and schema.domain == domain
    )


@cache
def defaults(op: str) -> Mapping[str, Attribute]:
    """Defaults of attributes in the canonical definition."""
    return _defaults(definition(op, "", CANONICAL_OPSET))


@cache
def late_defaults(op: str) -> Mapping[str, Attribute]:
    """Defaults of attributes that were added after the canonical definition."""
    early = definition(op, "", CANONICAL_OPSET)
    known = set(early.attributes) if early else set()
    late = _defaults(definition(op, "", onnx.defs.onnx_opset_version()))
    return {name: value for name, value in late.items() if name not in known}


def _defaults(schema: onnx.defs.OpSchema | None) -> dict[str, Attribute]:
    if schema is None:
        return {}
    values: dict[str, Attribute] = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name:
            values[name] = _plain(helper.get_attribute_value(attribute.default_value))
    return values


def _plain(value: Any) -> Attribute:
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    return value.decode() if isinstance(value, bytes) else value


@cache
def optional_outputs(op: str, domain: str) -> frozenset[int]:
    """Positions of optional outputs."""
    schema = definition(op, domain, CANONICAL_OPSET)
    formals = schema.outputs if schema else []
    return frozenset(i for i, formal in enumerate(formals) if formal.option == _OPTIONAL)


@cache
def input_name(op: str, position: int) -> str:
    """Name of an input in the definition, for people to read."""
    schema = definition(op, "", CANONICAL_OPSET)
    if schema is None or position >= len(schema.inputs):
        return f"input{position}"
    return str(schema.inputs[position].name)
