"""Results of a study in sentences."""

from __future__ import annotations

from dlbricks_core.report.study.record import StudyRecord
from dlbricks_core.workflows import DEFAULT_COMPOSER

_NAMED = 3
"""Maximum number of places named for one reason of failure."""


def models(study: StudyRecord) -> str:
    """The study's models: the name of a single one, or their number."""
    return study.models[0].name if len(study.models) == 1 else f"{len(study.models)} models"


def subject(study: StudyRecord) -> str:
    """Models and backend of a study."""
    backend = study.data["backend"]
    return f"{models(study)} on {backend['name']} {backend['version']}"


def answer(study: StudyRecord) -> list[str]:
    """Sentences on the accuracy of estimates, and on repetition."""
    count = study.repetition.total
    lines = []
    way = next((way for way in study.own if way.composer == DEFAULT_COMPOSER), None)
    if way and way.models:
        data = way.data
        worst = data["worst"]
        mean = " on average" if len(way.models) > 1 else ""
        lines.append(
            f"{subject(study)}: estimates by the composer {way.label} are "
            f"off by {data['mape']:.1%}{mean} (geometric mean of estimate/measured "
            f"{data['geometric_mean']:.3f}, worst {worst['name']} {worst['error']:+.1%})."
        )
    else:
        lines.append(f"{subject(study)}: no estimates.")
    share = "" if count.unique_share is None else f" ({count.unique_share:.1%})"
    lines.append(f"Of {count.layers:,} layers, {count.unique:,} are unique{share}.")
    return lines


def setting(study: StudyRecord) -> str:
    """Setting of the study: how, where and when it was measured."""
    backend, settings = study.data["backend"], study.data["settings"]
    options = "".join(f", {name}={value}" for name, value in backend["settings"].items())
    runs = f"{settings['runs']} run{'' if settings['runs'] == 1 else 's'}"
    threads = f"{settings['threads']} thread{'' if settings['threads'] == 1 else 's'}"
    when = f"; measured {study.span}" if study.span else ""
    return (
        f"{backend['name']} {backend['version']}{options}; {threads}; {settings['protocol']} "
        f"protocol ({settings['statistic']}, {runs}){when}; "
        f"{study.data['system']['description']}"
    )


def failures(study: StudyRecord) -> list[tuple[str, str]]:
    """Failures with their reasons; of many places with one reason, the first are named."""
    places: dict[str, list[str]] = {}
    for each in study.data["failures"]:
        places.setdefault(each["reason"], []).append(each["where"])
    return [
        (", ".join(named[:_NAMED]) + (f" and {more} more" if more > 0 else ""), reason)
        for reason, named in places.items()
        for more in [len(named) - _NAMED]
    ]
