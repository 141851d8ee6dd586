"""JSON Schema of all installed commands: ``python -m dlbricks_testing.json_schema``."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from dlbricks_core.commands import Command
from dlbricks_core.errors import PluginError
from dlbricks_core.plugins import discover
from dlbricks_core.report.data import SCHEMA_VERSION
from dlbricks_core.report.files import write_json

Schema = dict[str, Any]

_SCALARS: Mapping[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null",
}  # fmt: skip

_SUFFIX = "Data"


def schema_of(written: Mapping[str, Any]) -> Schema:
    """JSON Schema of objects, and of all objects that they consist of.

    An object is a typed dictionary, or a data class.

    Args:
        written: Typed dictionary, or union of several, by the name of its object.

    Raises:
        TypeError: If a field has a type that JSON lacks, or two objects have one name.
        ValueError: If a field has no sentence, in a comment of its typed dictionary.
    """
    parts: dict[str, type] = {}
    for record in (each for types in written.values() for each in _records(types)):
        if parts.setdefault(_name(record), record) is not record:
            raise TypeError(f"two records are called {record.__name__}")
    for name, types in written.items():
        if parts.get(name, types) is not types:
            raise TypeError(f"{name} is a command and another object")
    commands = {name: types for name, types in written.items() if name not in parts}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"JSON of dlbricks, version {SCHEMA_VERSION}",
        "description": "$defs has an object for each command, under the command's words joined by "
        "_, and the objects that these consist of.",
        "$defs": {
            **{name: _command(name, types) for name, types in commands.items()},
            **{name: _object(record) for name, record in parts.items()},
        },
    }


def _command(name: str, kind: Any) -> Schema:
    """Schema of a command whose object has another name, or is one of several."""
    return {**_type(kind), "description": f"Output of `dlbricks {name.replace('_', ' ')}`."}


def _records(kind: Any) -> Iterator[type]:
    """Typed dictionaries that a type consists of, each before those of its fields."""
    pending, found = [kind], set()
    while pending:
        each = pending.pop(0)
        if _is_record(each) and each not in found:
            found.add(each)
            yield each
            pending += get_type_hints(each).values()
        pending += get_args(each) if get_origin(each) is not Literal else ()


def _is_record(kind: Any) -> bool:
    return is_typeddict(kind) or is_dataclass(kind)


def _name(record: type) -> str:
    """Name of an object in the schema: ``compared_model`` for ``ComparedModelData``."""
    words = re.findall(r"[A-Z][a-z0-9]*", record.__name__.removesuffix(_SUFFIX))
    return "_".join(words).lower()


def _object(record: type) -> Schema:
    sentences, fields = _sentences(record), get_type_hints(record)
    if lacking := fields.keys() - sentences.keys():
        raise ValueError(f"{record.__name__} has no description of {', '.join(sorted(lacking))}")
    # Python 3.11 overlooks NotRequired where annotations are texts.
    marked = get_type_hints(record, include_extras=True)
    required = {
        name
        for name in getattr(record, "__required_keys__", fields)
        if get_origin(marked[name]) is not NotRequired
    }
    return {
        "type": "object",
        "description": _plain((record.__doc__ or "").partition("Attributes:")[0]),
        "properties": {
            name: {**_type(kind), "description": sentences[name]} for name, kind in fields.items()
        },
        "required": [name for name in fields if name in required],
    }


def _sentences(record: type) -> dict[str, str]:
    """Sentence on each field, from the comments ``#:`` of a typed dictionary and its bases.

    A comment stands above the field or beside it; docstrings may list attributes instead.
    """
    found: dict[str, str] = {}
    for base in _bases(record):
        found |= _sentences(base)
    attributes = (record.__doc__ or "").partition("Attributes:")[2]
    for text in re.split(r"\n {8}(?=\w+: )", attributes)[1:]:
        name, _, sentence = text.partition(": ")
        found[name] = _plain(sentence)
    above, name = "", ""
    for line in inspect.getsource(record).splitlines():
        code, _, comment = line.partition("#:")
        if field := re.match(r" {4}(\w+): ", code):
            name = field[1]
        if not code.strip():
            above += comment
        elif above or comment:
            found[name], above = _plain(above + comment), ""
    return found


def _bases(record: type) -> Iterator[type]:
    """Typed dictionaries that a typed dictionary extends."""
    # Typed dictionaries of Python 3.11 keep the fields of their bases, but not the bases.
    (definition,) = ast.parse(inspect.getsource(record)).body
    assert isinstance(definition, ast.ClassDef)
    names = vars(sys.modules[record.__module__])
    for base in definition.bases:
        if _is_record(found := eval(ast.unparse(base), names)):
            yield found


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("``None``", "null").replace("``", "`")


def _type(kind: Any) -> Schema:
    """Schema of a type.

    Raises:
        TypeError: If JSON lacks the type.
    """
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if _is_record(kind):
        return {"$ref": f"#/$defs/{_name(kind)}"}
    if kind is Any:
        return {}
    rule: Callable[..., Schema] | None = _GENERIC.get(get_origin(kind))
    if rule is None:
        raise TypeError(f"JSON has no type like {kind}")
    return rule(*get_args(kind))


def _union(*kinds: Any) -> Schema:
    found = [_type(kind) for kind in kinds]
    if all(each.keys() == {"type"} for each in found):
        return {"type": [each["type"] for each in found]}
    if found[-1] == {"type": "null"} and "enum" in found[0]:
        return {"enum": [*found[0]["enum"], None]}
    return {"anyOf": found}


def _tuple(*kinds: Any) -> Schema:
    """Schema of a tuple whose items have one type, such as an interval."""
    return {"type": "array", "items": _type(kinds[0]), "minItems": len(kinds),
            "maxItems": len(kinds)}  # fmt: skip


def _mapping(_key: Any, value: Any) -> Schema:
    inner = _type(value)
    return {"type": "object", "additionalProperties": inner} if inner else {"type": "object"}


#: Rule for each generic type, from its arguments.
_GENERIC: Mapping[Any, Callable[..., Schema]] = {
    UnionType: _union,
    Union: _union,
    Literal: lambda *values: {"enum": list(values)},
    list: lambda item: {"type": "array", "items": _type(item)},
    abc.Sequence: lambda item: {"type": "array", "items": _type(item)},
    tuple: _tuple,
    dict: _mapping,
    abc.Mapping: _mapping,
}


def schema_of_commands() -> Schema:
    """JSON Schema of the objects that installed commands write with ``--json``.

    Raises:
        PluginError: If a command cannot be used.
    """
    written: dict[str, Any] = {}
    for plugin in discover("command", Command):
        if plugin.problem:
            raise PluginError(plugin.problem, hint=plugin.cure)
        for action, place in plugin.loaded.objects.items():
            module, _, name = place.partition(":")
            words = "_".join(filter(None, (*plugin.name.split("."), action)))
            written[words] = getattr(import_module(module), name)
    return schema_of(dict(sorted(written.items())))


if __name__ == "__main__":
    write_json(schema_of_commands(), Path(sys.argv[1] if len(sys.argv) > 1 else "-"))
