"""Version of a plugin's code, which changes with every edit while the plugin is developed."""

from __future__ import annotations

import hashlib
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path

_DIGITS = 8


def code_version(distribution_name: str, version: str, module: str) -> str:
    """Version of the code that a distribution's plugin runs.

    It is the distribution's version where the distribution installed the code itself. Code from
    elsewhere, such as the source tree of an editable install, may change under one version: a
    hash of its Python files is appended then, ``"0.1.0+3f9a12c4"``.

    Args:
        distribution_name: Distribution that announces the plugin.
        version: Version of that distribution.
        module: Module of the plugin's class; its outermost package is the plugin's code.
    """
    spec = _package(module)
    if spec is None or spec.origin is None or _installed(distribution_name, Path(spec.origin)):
        return version
    # A version has one "+" at most; what follows it is divided by dots.
    return f"{version}{'.' if '+' in version else '+'}{_hash(spec)}"


def _package(module: str) -> ModuleSpec | None:
    """Outermost package or module that has a file; namespaces, which have none, are passed by."""
    for name in accumulate(module.split("."), "{}.{}".format):
        spec = find_spec(name)
        if spec is None or spec.origin is not None:
            return spec
    return None


def _installed(distribution_name: str, path: Path) -> bool:
    """Whether the distribution's record of installed files contains this file."""
    try:
        found = distribution(distribution_name)
    except PackageNotFoundError:
        return False
    named = (file for file in found.files or () if file.name == path.name)
    return any(Path(str(file.locate())).resolve() == path.resolve() for file in named)


def _hash(spec: ModuleSpec) -> str:
    """First hexadecimal digits of a hash over all Python files of a package or module."""
    total = hashlib.sha256()
    for root in map(Path, spec.submodule_search_locations or ()):
        for path in sorted(root.rglob("*.py")):
            total.update(f"{path.relative_to(root).as_posix()}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    if not spec.submodule_search_locations:
        total.update(Path(str(spec.origin)).read_bytes())
    return total.hexdigest()[:_DIGITS]
