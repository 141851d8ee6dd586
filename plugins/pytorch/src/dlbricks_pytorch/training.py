"""Programs of modules that were exported in training mode, which compute something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from dlbricks_core.errors import ModelError
from dlbricks_core.wording import listed
from dlbricks_pytorch.causes import noted_place

_NAMED = 3
"""Maximum number of operators that an error names."""

Values = Mapping[str, Any]
"""Arguments of an operator by name, with its defaults."""


def check_inference(program: torch.export.ExportedProgram) -> None:
    """Refuses a program of a module in training mode.

    ONNX has no counterpart of normalization by a batch's own statistics that also updates running
    ones; torch.onnx writes the one for inference instead, and leaves dropout in attention out.

    Raises:
        ModelError: If an operator computes as in training.
    """
    found = [node for node in _nodes(program) if _trains(node)]
    if not found:
        return
    numbers = Counter(f"aten.{node.target._opname}" for node in found)
    named = [f"{number} {name}" for name, number in numbers.items()]
    lines = (found[0].stack_trace or "").splitlines()
    of_modules = noted_place("\n".join(each for each in lines if "/torch/nn/" not in each))
    raise ModelError(
        f"the program is in training mode: {listed(named, _NAMED)}{of_modules}",
        hint="Call eval() on the module before torch.export.export, and write the file again. "
        "Dropout that is to stay active has no counterpart.",
    )


def _nodes(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """Calls of ATen's operators, also in branches and loops."""
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                target = node.target
                if isinstance(target, torch._ops.OpOverload) and target.namespace == "aten":
                    yield node


def _trains(node: Any) -> bool:
    trains = _TRAINING.get(node.target._opname)
    if trains is None:
        return False
    arguments = node.target._schema.arguments
    values = {each.name: each.default_value for each in arguments if each.has_default_value()}
    values |= {each.name: value for each, value in zip(arguments, node.args, strict=False)}
    return trains(values | dict(node.kwargs))


def _drops(values: Values) -> bool:
    return values["train"] in (True, None) and _is_some(values["p"])


def _drops_between_layers(values: Values) -> bool:
    several = values["num_layers"] != 1
    return values["train"] is True and several and _is_some(values["dropout"])


def _drops_attention(values: Values) -> bool:
    return _is_some(values["dropout_p"])


def _is_random(values: Values) -> bool:
    return values["training"] is True


def _updates(values: Values) -> bool:
    """Whether normalization updates statistics; by an input's own alone, it may be inference."""
    own = values.get("training", values.get("use_input_stats")) is True
    return own and values["running_mean"] is not None


def _is_some(share: object) -> bool:
    return isinstance(share, int | float) and share > 0


_TRAINING: Mapping[str, Callable[[Values], bool]] = {
    **dict.fromkeys(
        ("alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout", "native_dropout"),
        _drops,
    ),
    **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), _drops_between_layers),
    **dict.fromkeys(("rrelu", "rrelu_with_noise", "rrelu_with_noise_functional"), _is_random),
    **dict.fromkeys(
        ("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "batch_norm",
         "instance_norm", "native_batch_norm"),
        _updates,
    ),
    "scaled_dot_product_attention": _drops_attention,
}  # fmt: skip
"""Function that tells from arguments whether an operator computes as in training, by its name."""
