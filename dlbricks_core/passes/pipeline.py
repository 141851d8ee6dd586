"""Passes: each names the properties that it requires and those that it ensures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, ParamSpec, TypeVar


class Property(Enum):
    """Properties that passes ensure: of a whole model, unless the text says "the layer"."""

    INPUTS_SIZED = "every input has a static shape"
    INPUTS_FIXED = "inputs with a given value are weights"
    INPUTS_LIMITED = "no input is larger than a tensor may be"
    LAYERS_LIVE = "every layer leads to an output"
    LAYERS_CANONICAL = "every layer is in canonical form or opaque"
    SHAPES_STATIC = "every tensor has a static shape, except results of opaque layers"
    CONSTANTS_FOLDED = "every layer reads more than weights, unless folding would lose work"
    IDENTITIES_NEEDED = "every Identity keeps a name that the model needs"
    NOTHING_UNREAD = "every tensor is an input, an output or read by a layer"
    BATCH_NORMALIZATION_FOLDED = "batch normalization is folded if the user requests it"

    NAMES_RESOLVED = "the layer reads no result of an Identity that is gone"
    MAY_BE_TIMED = "the layer is not opaque"
    NO_SUBGRAPH = "the layer has no subgraph"
    TENSORS_ONLY = "the layer works on tensors, not on sequences or optionals"
    INPUTS_STATIC = "every input of the layer has a static shape"
    DEFINED = "the layer follows a known definition of its operator"
    VALID = "the layer fits the definition of its operator"
    OPSET_CANONICAL = "the layer follows the canonical operator set"
    FORM_CANONICAL = "the layer is in canonical form"
    NOT_FOLDED = "the layer reads more than weights, unless folding would lose work"
    NOT_IDLE = "the layer computes something, or keeps a name that the model needs"


Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT", covariant=True)


@dataclass(frozen=True)
class Pass(Generic[Arguments, ResultT]):
    """One step on the way to canonical form; a function that states its properties.

    Attributes:
        run: Function that does the work, on a model, a layer, or a draft of a layer.
        requires: Properties that must hold before the pass.
        ensures: Properties of the resulting model.
    """

    run: Callable[Arguments, ResultT]
    requires: frozenset[Property]
    ensures: frozenset[Property]

    def __call__(self, *arguments: Arguments.args, **more: Arguments.kwargs) -> ResultT:
        """The function itself."""
        return self.run(*arguments, **more)


def properties(
    *, requires: Iterable[Property] = (), ensures: Iterable[Property] = ()
) -> Callable[[Callable[Arguments, ResultT]], Pass[Arguments, ResultT]]:
    """Decorator of a pass, with the properties that it requires and those that it ensures."""
    return lambda run: Pass(run, frozenset(requires), frozenset(ensures))


def check_order(
    passes: Iterable[Pass[..., Any]], given: Iterable[Property] = ()
) -> frozenset[Property]:
    """Checks that every property that a pass requires is ensured before it.

    Returns:
        Properties that hold after the last pass.

    Raises:
        ValueError: If a pass requires a property that nothing before it ensures.
    """
    held = frozenset(given)
    for each in passes:
        missing = each.requires - held
        if missing:
            wanted = "; ".join(sorted(each.value for each in missing))
            raise ValueError(f"{each.run.__qualname__} comes too early, it requires: {wanted}")
        held |= each.ensures
    return held
