"""Summary of a written site, for a terminal and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlbricks_core.report.atlas.words import holdings, origin
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import SCHEMA_VERSION, failures_data
from dlbricks_core.workflows.atlas import BASES, Atlas


def print_atlas(console: Console, atlas: Atlas, folder: Path, files: Sequence[str]) -> None:
    """Prints the content of the site, and the path of its first page."""
    console.print(styled((holdings(atlas), "bold")))
    console.print(origin(atlas))
    console.print(f"{_pages(files)} pages: open {folder / 'index.html'}", soft_wrap=True)


def atlas_data(atlas: Atlas, folder: Path, files: Sequence[str]) -> dict[str, Any]:
    """Summary of the site as a JSON object for scripts."""
    origins = atlas.origins()
    return {
        "schema_version": SCHEMA_VERSION,
        "folder": str(folder),
        "pages": _pages(files),
        "systems": list(atlas.systems),
        "machines": [
            {"fingerprint": fingerprint, "machine": name or None}
            for fingerprint, name in atlas.machines
        ],
        "backends": sorted({place.backend for place in atlas.places}),
        "models": len(atlas.models),
        "bricks": atlas.bricks,
        "values": len(atlas.entries),
        "origin": {basis: origins[basis] for basis in BASES},
        **failures_data([]),
    }


def _pages(files: Sequence[str]) -> int:
    return sum(each.endswith(".html") for each in files)
