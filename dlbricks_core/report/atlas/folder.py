"""The folder of a site: written beside the old one, which it then replaces as a whole."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from dlbricks_core.errors import DLBricksError
from dlbricks_core.report.files import check_folder, told

MANIFEST = "dlbricks-atlas.json"
"""File that marks a folder as a site, and lists its files."""

_VERSION = 1


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
    """Writes a site; until all of it is written, the folder stays as it is.

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
    """Puts a new folder in the place of another, or back if that fails."""
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
    """Something in a folder that no atlas wrote; empty where there is nothing of the kind."""
    listed = _listed(folder)
    if not listed:  # it may be as large as a home folder
        return next((each.name for each in folder.iterdir()), "")
    found = {str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir()}
    return min(found - listed, default="")


def _listed(folder: Path) -> set[str]:
    """Files that the atlas in a folder wrote; none where there is no atlas."""
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        names = content["files"]
        return {str(PurePosixPath(name)) for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
