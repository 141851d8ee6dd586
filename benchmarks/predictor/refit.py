"""Groups of fitted numbers: writes them with what they rest on, and digests of that.

Commands beside this module call :func:`write`. ``tests/test_fitted.py`` compares :data:`DIGESTS`
with what the groups say.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from dlbricks_prediction import atlas, from_atlas
from dlbricks_prediction.training_data import FEATURES

from dlbricks_core.fitted import FILE, Fitted, groups

ROOT = Path(__file__).parents[2]


def digest(*contents: bytes) -> str:
    """Short digest of some contents in their order."""
    return sha256(b"".join(sha256(each).digest() for each in contents)).hexdigest()[:16]


def contributions(paths: Iterable[Path] | None = None) -> str:
    """Digest of contributions.

    Args:
        paths: Their files; by default those that ship of backends with fitted numbers of their own.
            A backend without such numbers has those of all others together.
    """
    fitted = groups(file_of(from_atlas))["discrepancy"].values.keys() - {"*"}
    if paths is None:
        every = atlas.FOLDER.glob("*.npz")
        paths = [each for each in every if each.stem.split("-")[-2] in fitted]
    return digest(*(each.name.encode() + each.read_bytes() for each in sorted(paths)))


def kernels() -> str:
    """Digest of the kernels of all backends."""
    return digest(json.dumps(groups(file_of(from_atlas))["kernel"].values).encode())


DIGESTS: Mapping[str, Callable[[], str]] = {
    "contributions": contributions,
    "features": lambda: FEATURES,
    "kernel": kernels,
}
"""Today's digest or version of what fitted numbers may rest on, by its name."""


def file_of(module: Any) -> Path:
    """Data file beside a module."""
    return Path(module.__file__).with_name(FILE)


def write(module: Any, group: str, values: Mapping[str, Any], *rests_on: str) -> None:
    """Writes new numbers of a group. Its command and its note stay as they are.

    Args:
        module: A module beside the data file.
        group: Name of the group.
        values: The numbers by name.
        rests_on: Names in :data:`DIGESTS`.
    """
    path = file_of(module)
    every = dict(groups(path))
    every[group] = replace(
        every[group],
        values=values,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=_commit(),
        rests_on={name: DIGESTS[name]() for name in rests_on},
    )
    path.write_text(text(every), "utf-8")
    groups.cache_clear()


def text(every: Mapping[str, Fitted]) -> str:
    """Content of a data file."""
    return json.dumps({name: asdict(each) for name, each in every.items()}, indent=1) + "\n"


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
