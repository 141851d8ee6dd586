"""Published numbers of a study's models, beside the study's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import ModelCollection, Publication, PublishedFigure
from dlbricks_core.importers.published import StudyData
from dlbricks_core.plugins import Plugin, attempt, discover


def published_data(study: StudyData) -> dict[str, Any] | None:
    """Published numbers and the study's own; ``None`` where nothing was published.

    Args:
        study: The study's other fields, as ``study.json`` holds them.
    """
    plugin = _collection_of(model["source"] for model in study["models"])
    publication: Publication | None = plugin.loaded.published if plugin else None
    if plugin is None or publication is None:
        return None
    return {
        "source": publication.source,
        "models": publication.models,
        "figures": [
            {
                "figure": each.figure,
                "what": each.what,
                "where": each.where,
                "paper": each.text,
                "value": each.value,
                "ours": ours,
                "ours_text": text,
            }
            for each in publication.figures
            for ours, text in [_ours(plugin, each, study)]
        ],
    }


def _ours(plugin: Plugin, figure: PublishedFigure, study: StudyData) -> tuple[float | None, str]:
    """A study's own number and its text. A defective plugin does not stop the study."""
    found = attempt(plugin, lambda: figure.ours(study))
    if isinstance(found, DLBricksError):
        return None, f"failed: {found.message}"
    return found, figure.worded(found)


def _collection_of(sources: Iterable[str]) -> Plugin | None:
    """The common collection of all models; ``None`` if there is none.

    Args:
        sources: Source of each model, such as ``paper:1``.
    """
    names = {source.partition(":")[0] for source in sources}
    if len(names) != 1:
        return None
    found = discover("models", ModelCollection)
    return next((each for each in found if each.name in names and each.loaded), None)
