"""Published numbers of a study's models, beside the study's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlbricks_core.importers import ModelCollection, Publication
from dlbricks_core.importers.published import StudyData
from dlbricks_core.plugins import discover


def published_data(study: StudyData) -> dict[str, Any] | None:
    """Published numbers and the study's own; ``None`` where nothing was published.

    Args:
        study: The study's other fields, as ``study.json`` holds them.
    """
    publication = publication_of(model["source"] for model in study["models"])
    if publication is None:
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
                "ours": each.ours(study),
                "ours_text": each.ours_text(study),
            }
            for each in publication.figures
        ],
    }


def publication_of(sources: Iterable[str]) -> Publication | None:
    """Publication about the collection that all models come from; ``None`` if there is none.

    Args:
        sources: Source of each model, such as ``paper:1``.
    """
    names = {source.partition(":")[0] for source in sources}
    if len(names) != 1:
        return None
    found = [each.loaded for each in discover("models", ModelCollection) if each.name in names]
    return found[0].published if found and found[0] else None
