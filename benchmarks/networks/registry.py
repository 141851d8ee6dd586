"""The table of networks, which their functions enter by a decorator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

import torch
from torch import Tensor, nn

Build = Callable[[], tuple[nn.Module, *tuple[Tensor, ...]]]
Factory = Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]


@dataclass(frozen=True)
class Network:
    """A network that can be built.

    Attributes:
        domain: Kind of task that it is made for.
        factory: Function that returns the module and its example inputs.
    """

    domain: str
    factory: Factory

    @property
    def spec(self) -> str:
        """Name of the factory in the form ``package.module:function``."""
        return f"{self.factory.__module__}:{self.factory.__name__}"


NETWORKS: dict[str, Network] = {}
"""Networks by name."""


def seeded(build: Build) -> Factory:
    """A factory that draws the same weights and inputs each time, for a module in eval mode."""

    @wraps(build)
    def factory() -> tuple[nn.Module, tuple[Tensor, ...]]:
        torch.manual_seed(0)
        module, *inputs = build()
        return module.eval(), tuple(inputs)

    return factory


def network(domain: str) -> Callable[[Build], Factory]:
    """Decorator that enters a function into the table under its name."""

    def enter(build: Build) -> Factory:
        assert build.__name__ not in NETWORKS, f"two networks are named {build.__name__}"
        factory = seeded(build)
        NETWORKS[build.__name__] = Network(domain, factory)
        return factory

    return enter
