"""Programs as torch serializes them: what is in them is checked before torch reads it.

torch evaluates the content of a program's JSON: expressions of sizes go through ``eval``, names
of operators through ``getattr``, names of tensors into Python source, the trees of arguments
into ``import``. Only values that torch itself writes are accepted here.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import keyword
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._export.serde import schema
from torch._export.serde.union import _Union
from torch.utils import _pytree as pytree

from dlbricks_core.errors import ModelError

MOST_NODES = 100_000
"""Operators of a program."""

_DIALECTS = ("ATEN", "TRAINING")
_HINT = "Write it with torch.export.save; torch writes no such program."
_CUSTOM_HINT = (
    "Name a factory whose module imports that library and returns "
    "torch.export.load(path): torch:package.module:factory"
)
_NAMESPACES = frozenset(
    ("aten", "prims", "quantized", "quantized_decomposed", "torchvision", "onnx")
)
#: Operators on graphs; those that call other than the graphs in the file are left out.
_HIGHER_ORDER = frozenset(
    ("associative_scan", "cond", "flex_attention", "invoke_subgraph", "map_impl", "out_dtype",
     "scan", "strict_mode", "tag_activation_checkpoint", "while_loop", "wrap",
     "wrap_activation_checkpoint", "wrap_with_autocast", "wrap_with_set_grad_enabled")
)  # fmt: skip
#: Operators on sizes.
_ON_SIZES = frozenset(
    (*(f"_operator.{op}" for op in ("add", "and_", "eq", "floordiv", "ge", "getitem", "gt", "le",
                                    "lshift", "lt", "mod", "mul", "ne", "neg", "or_", "pos",
                                    "pow", "rshift", "sub", "truediv")),
     *(f"torch.sym_{op}" for op in ("float", "int", "ite", "max", "min", "not", "sqrt")),
     "torch._sym_sqrt", "math.ceil", "math.floor", "math.trunc")
)  # fmt: skip
_OPERATOR = re.compile(r"torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?", re.ASCII)
_FQN = re.compile(r"[^\"'\\`{}$]{1,1000}")
_SYMBOL = re.compile(r"[a-z]{1,4}\d{1,6}", re.ASCII)
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\w+)')

_FUNCTIONS = frozenset(
    ("Abs", "Add", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "ExprCondPair",
     "FloatPow", "FloatTrueDiv", "FloorDiv", "FloorToInt", "Ge", "GreaterThan", "Gt", "Identity",
     "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "LShift", "Le", "LessThan", "Lt", "Max",
     "Min", "Mod", "ModularIndexing", "Mul", "Ne", "Not", "Or", "Piecewise", "Pow",
     "PowByNatural", "PythonMod", "RShift", "RoundDecimal", "RoundToInt", "StrictGreaterThan",
     "StrictLessThan", "ToFloat", "TruncToFloat", "TruncToInt", "Unequality", "Where", "ceiling",
     "floor", "sqrt")
)  # fmt: skip
_POWERS = frozenset(("FloatPow", "LShift", "Pow", "PowByNatural", "RShift"))
_NUMBERS = frozenset(("oo", "int_oo", "nan", "zoo", "true", "false"))
#: Functions of plain numbers and texts, with the types of their arguments.
_LITERALS = {
    "Symbol": _SYMBOL,
    "Float": re.compile(r"-?[\d.]{1,40}(e[+-]?\d{1,3})?", re.ASCII),
    "Integer": re.compile(r"-?\d{1,20}", re.ASCII),
    "Rational": re.compile(r"-?\d{1,20}", re.ASCII),
}
#: Stated properties of symbols and numbers: signs and numbers of bits.
_SETTING = re.compile(r"True|False|\d{1,3}", re.ASCII)
_CHARACTERS = re.compile(r"[\w+\-*/%(),.<>=!&|~' ]{1,5000}", re.ASCII)
_MOST_EXPONENT = 16
"""Maximum exponent in an expression."""

_GRAMMAR = (ast.Expression, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.BinOp)


def checked(program: schema.ExportedProgram) -> schema.ExportedProgram:
    """A program that torch can read without running any code of the file's.

    Its arguments and results are flat, all tensors are on the CPU, and fields of the file for other
    uses than the graph are dropped.

    Raises:
        ModelError: If it has any value that torch does not write.
    """
    version = program.schema_version
    if version.major != schema.SCHEMA_VERSION[0]:
        raise ModelError(
            f"torch {str(program.torch_version)[:20]!r} wrote it in format "
            f"{version.major}; torch {torch.__version__} reads {schema.SCHEMA_VERSION[0]}",
            hint="Export it again with that version of torch, or install the other.",
        )
    graph = program.graph_module.graph
    nodes = sum(1 for each in _parts(program.graph_module) if isinstance(each, schema.Node))
    if nodes > MOST_NODES:
        raise ModelError(f"a program of {nodes} operators; {MOST_NODES} is the limit", hint=_HINT)
    for part in _parts(program.graph_module.graph, program.graph_module.signature):
        _check(part)
    for formula in program.range_constraints:
        check_expression(formula)
    return dataclasses.replace(
        program,
        # The range of a derived size, such as 2*s0, follows from that of its symbol.
        range_constraints={
            name: bounds
            for name, bounds in program.range_constraints.items()
            if _SYMBOL.fullmatch(name)
        },
        graph_module=schema.GraphModule(
            graph=graph,
            signature=program.graph_module.signature,
            module_call_graph=[_flat_call(program.graph_module.signature, graph)],
        ),
        verifiers=[each for each in program.verifiers if each in _DIALECTS] or ["ATEN"],
        guards_code=[],
    )


def _flat_call(signature: schema.GraphSignature, graph: schema.Graph) -> schema.ModuleCallEntry:
    inputs = [
        _input_name(value, position)
        for position, (spec, value) in enumerate(
            zip(signature.input_specs, graph.inputs, strict=True)
        )
        if spec.type in ("user_input", "constant_input")
    ]
    outputs = sum(spec.type == "user_output" for spec in signature.output_specs)
    return schema.ModuleCallEntry(
        fqn="",
        signature=schema.ModuleCallSignature(
            inputs=[],
            outputs=[],
            in_spec=_spec(((0,) * len(inputs), {})),
            out_spec=_spec((0,) * outputs),
            forward_arg_names=inputs,
        ),
    )


def _input_name(value: schema.Argument, position: int) -> str:
    if value.type == "as_tensor":
        return value.as_tensor.name
    if value.type == "as_sym_int" and value.as_sym_int.type == "as_name":
        return value.as_sym_int.as_name
    return f"arg{position}"


def _spec(tree: Any) -> str:
    return pytree.treespec_dumps(pytree.tree_structure(tree))


def _parts(*roots: Any) -> Iterator[Any]:
    """All data classes below some values, without recursion."""
    left = list(roots)
    while left:
        part = left.pop()
        if isinstance(part, list):
            left += part
        elif isinstance(part, dict):
            left += part.values()
        elif isinstance(part, _Union):
            yield part
            left.append(part.value)
        elif dataclasses.is_dataclass(part):
            yield part
            left += vars(part).values()


def _check(part: Any) -> None:
    fields = {str(part.type): part.value} if isinstance(part, _Union) else vars(part)
    for name, check in _CHECKS.get(type(part).__name__, {}).items():
        if name in fields:
            check(fields[name])


def _require(holds: object, what: str, value: object) -> None:
    if not holds:
        text = str(value)
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise ModelError(f"its program has {shown!r} for the name of {what}", hint=_HINT)


def _identifier(value: Any) -> None:
    proper = isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)
    _require(proper, "a tensor", value)


def _identifier_or_none(value: Any) -> None:
    if value not in (None, ""):
        _identifier(value)


def _fqn(value: Any) -> None:
    proper = isinstance(value, str) and value.isprintable() and _FQN.fullmatch(value)
    _require(proper, "a weight", value)


def _identifiers(values: Any) -> None:
    for value in values:
        _identifier(value)


def _plain_keys(values: Any) -> None:
    for value in values:
        _fqn(value)


def _operator(target: Any) -> None:
    """Refuses what is no operator of torch.

    Raises:
        ModelError: If it is unknown, a library's own, or reads and writes files.
    """
    if target in _ON_SIZES:
        return
    found = _OPERATOR.fullmatch(str(target))
    _require(found, "an operator", target)
    assert found is not None
    namespace, name, overload = found.groups()
    if namespace == "higher_order":
        _require(name in _HIGHER_ORDER and not overload, "an operator", target)
        return
    if namespace in _NAMESPACES and _resolved(namespace, name, overload or "default"):
        return
    if namespace == "aten":
        raise ModelError(
            f"its operator {namespace}::{name} is none that torch {torch.__version__} can trace",
            hint="Export it again with this version of torch.",
        )
    raise ModelError(
        f"{namespace}::{name} is a custom operator, whose library is not loaded",
        hint=_CUSTOM_HINT,
    )


@functools.cache
def _resolved(namespace: str, name: str, overload: str) -> bool:
    """Whether torch has the operator, and it leaves files alone."""
    packet = getattr(getattr(torch.ops, namespace), name, None)
    found = getattr(packet, overload, None)
    return isinstance(found, torch._ops.OpOverload) and all(
        argument.name != "filename" for argument in found._schema.arguments
    )


def check_expression(text: Any) -> None:
    """Refuses what is no formula of sizes: torch has it evaluated by Python.

    Raises:
        ModelError: If it is anything but numbers, symbols and torch's functions of them.
    """
    try:
        proper = (
            isinstance(text, str)
            and _CHARACTERS.fullmatch(text) is not None
            and _is_formula(ast.parse(text.strip(), mode="eval"))
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        proper = False
    if not proper:
        raise ModelError(f"its program has the size {str(text)[:60]!r}, no formula", hint=_HINT)


def _is_formula(node: ast.AST) -> bool:
    match node:
        case ast.Name(name):
            return _SYMBOL.fullmatch(name) is not None or name in _NUMBERS
        case ast.Constant(value):
            return type(value) in (int, float, bool) and abs(value) < 2**64
        case ast.Call(ast.Name(function), operands, keywords) if function in _LITERALS:
            return (
                len(operands) == (2 if function == "Rational" else 1)
                and all(_is_literal(each, _LITERALS[function]) for each in operands)
                and all(_is_literal(each.value, _SETTING) for each in keywords)
            )
        case ast.Call(ast.Name(function), operands, []) if function in _FUNCTIONS:
            if function in _POWERS and not (len(operands) == 2 and _is_small(*operands)):
                return False
            return all(map(_is_formula, operands))
        case ast.BinOp(base, ast.Pow() | ast.LShift(), exponent) if not _is_small(base, exponent):
            return False
    inner = (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
    return isinstance(node, _GRAMMAR) and all(map(_is_formula, inner))


def _is_literal(node: ast.expr, pattern: re.Pattern[str]) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and pattern.fullmatch(str(node.value)) is not None


def _is_small(base: ast.expr, exponent: ast.expr) -> bool:
    """Whether a power stays of some hundred digits: none of powers, to a small number."""
    while isinstance(exponent, ast.UnaryOp | ast.Call):
        function = isinstance(exponent, ast.Call) and isinstance(exponent.func, ast.Name)
        if function and exponent.func.id == "Symbol":
            break
        if function and (exponent.func.id not in _LITERALS or not exponent.args):
            return False
        exponent = exponent.operand if isinstance(exponent, ast.UnaryOp) else exponent.args[0]
    number = exponent.value if isinstance(exponent, ast.Constant) else 0
    return (
        not isinstance(exponent, ast.BinOp | ast.Compare | ast.BoolOp)
        and isinstance(number, int | float)
        and number <= _MOST_EXPONENT
        and not any(
            isinstance(each, ast.Pow | ast.LShift)
            or (isinstance(each, ast.Name) and each.id in _POWERS)
            for each in ast.walk(base)
        )
    )


def _no_object(value: Any) -> None:
    raise ModelError(
        f"it holds an object of the class {str(getattr(value, 'class_fqn', '?'))[:60]!r}, which "
        "only a pickle can restore",
        hint="A pickle may run code: export the module without that object.",
    )


def _on_cpu(device: schema.Device) -> None:
    device.type, device.index = "cpu", None


def _place_alone(metadata: Any) -> None:
    """Keeps the modules that an operator stands in, and its line in the user's code."""
    kept = {}
    stack = metadata.get("nn_module_stack", "")
    if isinstance(stack, str) and stack.isprintable():
        kept["nn_module_stack"] = stack
    frames = _FRAME.findall(str(metadata.get("stack_trace", ""))[-5000:])
    if frames and all(text.isprintable() for text in frames[-1]):
        kept["stack_trace"] = '  File "{}", line {}, in {}'.format(*frames[-1])
    metadata.clear()
    metadata.update(kept)


#: Check of each field of torch's schema of programs.
_CHECKS: dict[str, dict[str, Callable[[Any], None]]] = {
    "Node": {"target": _operator, "name": _identifier_or_none, "metadata": _place_alone},
    "NamedArgument": {"name": _identifier_or_none},
    "TensorArgument": {"name": _identifier},
    "TokenArgument": {"name": _identifier},
    "GraphArgument": {"name": _identifier},
    "Argument": {
        "as_operator": _operator,
        "as_custom_obj": _no_object,
        "as_device": _on_cpu,
        "as_string_to_argument": _plain_keys,
    },
    "SymIntArgument": {"as_name": _identifier},
    "SymFloatArgument": {"as_name": _identifier},
    "SymBoolArgument": {"as_name": _identifier},
    "SymExpr": {"expr_str": check_expression},
    "TensorMeta": {"device": _on_cpu},
    "Graph": {
        "tensor_values": _identifiers,
        "sym_int_values": _identifiers,
        "sym_bool_values": _identifiers,
        "sym_float_values": _identifiers,
        "custom_obj_values": _identifiers,
    },
    "InputToConstantInputSpec": {"name": _identifier_or_none},
    "InputToParameterSpec": {"parameter_name": _fqn},
    "InputToBufferSpec": {"buffer_name": _fqn},
    "InputToTensorConstantSpec": {"tensor_constant_name": _fqn},
    "InputToCustomObjSpec": {"arg": _no_object},
    "BufferMutationSpec": {"buffer_name": _fqn},
    "ParameterMutationSpec": {"parameter_name": _fqn},
    "GradientToParameterSpec": {"parameter_name": _fqn},
    "GradientToUserInputSpec": {"user_input_name": _identifier},
    "UserInputMutationSpec": {"user_input_name": _identifier},
}
