"""The folder of a site: a new one is written beside the old one and then replaces it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from dlbricks_core.errors import DLBricksError
from dlbricks_core.files import content
from dlbricks_core.report.files import check_folder, told

MANIFEST = "dlbricks-atlas.json"
"""File that marks a folder as a site, and lists its files."""

_VERSION = 1

_MOST_BYTES = 1 << 26
"""Maximum bytes of a manifest."""


def check_site(folder: Path) -> None:
    """Checks that a site may be written to a folder, and leaves nothing behind.

    Raises:
        DLBricksError: If the folder cannot be made, or holds what no site does.
    """
    target = Path(os.path.realpath(folder))
    check_folder(target.parent)
    with told(folder):
        if not target.exists():
            return
        if not target.is_dir():
            raise NotADirectoryError(0, "it is not a folder")
        strange = _strange(target)
    if strange:
        raise DLBricksError(
            f"{folder} holds {strange!r}, which no atlas wrote: nothing is overwritten",
            hint="Name a new folder, or one that an atlas was written to.",
        )


def write_site(files: Iterable[tuple[str, str]], folder: Path) -> list[str]:
    """Writes a site. The folder stays unchanged until the whole site is written.

    Args:
        files: Path of each file in the site, and its text.
        folder: Folder that becomes the site; an older site in it is replaced as a whole.

    Returns:
        Paths of the files.

    Raises:
        DLBricksError: If the folder may not be written, see :func:`check_site`.
    """
    check_site(folder)
    target = Path(os.path.realpath(folder))
    new = target.with_name(f".dlbricks-{secrets.token_hex(4)}")
    try:
        with told(folder):
            new.mkdir(parents=True)
            written = [_write(new / path, text, path) for path, text in files]
            listed = {"format": _VERSION, "files": sorted([*written, MANIFEST])}
            _write(new / MANIFEST, f"{json.dumps(listed, indent=1)}\n", MANIFEST)
            _replace(target, new)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return written


def _write(path: Path, text: str, name: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode("utf-8", "backslashreplace"))
    return name


def _replace(target: Path, new: Path) -> None:
    """Replaces a folder by a new one, and restores the old one if that fails."""
    if not target.exists():
        new.rename(target)
        return
    old = new.with_name(f"{new.name}-old")
    target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old)


def _strange(folder: Path) -> str:
    """Name of a file in a folder that no atlas wrote; empty if there is none."""
    listed = _listed(folder)
    if not listed:  # the folder may be as large as a home folder
        return next((each.name for each in folder.iterdir()), "")
    found = {str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir()}
    return min(found - listed, default="")


def _listed(folder: Path) -> set[str]:
    """Files in a folder that an atlas wrote; empty if the folder holds no atlas."""
    try:
        listed = json.loads(content(folder / MANIFEST, _MOST_BYTES))
        return {str(PurePosixPath(name)) for name in listed["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
