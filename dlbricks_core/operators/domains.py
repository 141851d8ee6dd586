"""Operators of other domains than ONNX's, which distributions define."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from dlbricks_core.errors import PluginError
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.plugins import discover, use

if TYPE_CHECKING:
    import onnx.defs

    from dlbricks_core.operators.operator import Operator
    from dlbricks_core.operators.results import Rule


@dataclass(frozen=True)
class AddedOperator:
    """An operator that ONNX does not define.

    Attributes:
        schema: Its inputs, outputs and attributes.
        shapes: Rule for its results.
    """

    schema: onnx.defs.OpSchema
    shapes: Rule


class OperatorDomain(ABC):
    """Operators that frameworks have beside ONNX's, and layers of ONNX that compute the same.

    Found through the entry-point group ``dlbricks.operators``. The class must be importable without
    the definitions: few models need them.
    """

    #: Domain in files, equal to the entry point's name.
    name: str
    #: Operators that files write without the domain.
    without_domain: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def operators(self) -> Mapping[tuple[str, str], AddedOperator]:
        """All operators by their domain in files and their type."""

    @abstractmethod
    def rows(self) -> Mapping[str, Operator]:
        """Rows of the table of operators, by :attr:`Layer.qualified_op`.

        Importing them must not import definitions: estimates need the rows alone.
        """

    @abstractmethod
    def in_onnx(self, model: CanonicalModel) -> CanonicalModel:
        """The model with layers of ONNX in the place of the operators that have a definition.

        Args:
            model: Model in canonical form, or in a form of a backend's own.
        """

    def joined(self, model: CanonicalModel) -> CanonicalModel:
        """The model with operators of the domain where frameworks that have them join layers.

        Args:
            model: Model in canonical form.
        """
        return model

    def conversions(self) -> Mapping[str, Callable[[CanonicalModel], CanonicalModel]]:
        """Conversions to element types that need the operators, by the name that users give."""
        return {}

    def has(self, model: CanonicalModel) -> bool:
        """Whether a layer of a model is one of the operators."""
        return any(
            layer.domain == self.name or layer.op in self.without_domain for layer in model.layers
        )


@cache
def operator_domains() -> Sequence[OperatorDomain]:
    """Domains that installed distributions define.

    Raises:
        PluginError: If one of them is broken.
    """
    found = discover("operators", OperatorDomain)
    for plugin in found:
        if plugin.problem:
            raise PluginError(f"operators of {plugin.name}: {plugin.problem}", hint=plugin.cure)
    return [use(plugin, plugin.loaded) for plugin in found]


@cache
def added_operators() -> Mapping[tuple[str, str], AddedOperator]:
    """Operators of all domains, by their domain in files and their type."""
    return {key: each for domain in operator_domains() for key, each in domain.operators().items()}


def as_run_by(known: frozenset[str] | None, model: CanonicalModel) -> CanonicalModel:
    """The model with the layers that a backend runs in the place of operators that it lacks.

    A backend that has operators of a domain runs some in the place of several of ONNX's.

    Args:
        known: Domains of the operators that the backend has beside ONNX's. If it is not known, the
            model does not change.
        model: Model in canonical form, or in a form of the backend's own.
    """
    if known is None:
        return model
    for domain in operator_domains():
        if domain.name in known:
            model = domain.joined(model)
        elif domain.has(model):
            model = domain.in_onnx(model)
    return model
