"""The list of published architectures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any

from torch import Tensor, nn

from ..registry import Factory, seeded


@dataclass(frozen=True)
class Architecture:
    """An architecture that was published.

    Attributes:
        name: Its name, in lower case.
        published: Year and month of its first publication.
        citation: Authors and subject.
        factory: Function that returns the module and its example inputs.
    """

    name: str
    published: str
    citation: str
    factory: Factory

    @property
    def spec(self) -> str:
        """Name of the factory in the form ``package.module:function``."""
        return f"{__package__}:{self.name}"


entered: list[Architecture] = []
"""Architectures in the order of the files."""


def published(
    name: str,
    month: str,
    citation: str,
    build: Callable[..., tuple[nn.Module, *tuple[Tensor, ...]]],
    *arguments: Any,
    **options: Any,
) -> None:
    """Enters an architecture, which a function builds from some arguments."""
    bound = update_wrapper(partial(build, *arguments, **options), build)
    entered.append(Architecture(name, month, citation, seeded(bound)))
