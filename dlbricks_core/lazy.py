"""Packages that import what they export when it is first used.

The ``__init__`` of such a package has its imports below ``if TYPE_CHECKING``, where type checkers
and linters read them, and calls ``lazy(__name__)``. Importing the package, or a module of it,
imports none of its other modules.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any


def lazy(package: str) -> None:
    """Lets a package import each name in its ``__all__`` when that name is first used.

    Args:
        package: Name of the package. The module of each name is derived from its source.
    """
    sys.modules[package].__class__ = _LazyPackage


class _LazyPackage(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.__all__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, original = _imports(self.__name__)[name]
        value = getattr(importlib.import_module(module), original)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python makes each module an attribute of its package once it is imported. An export of
        # the same name goes before it.
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__all__})


@cache
def _imports(package: str) -> dict[str, tuple[str, str]]:
    """Module of each name that a package imports, and the name there."""
    import ast  # takes longer than the rest of the package, which every command waits for

    source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
