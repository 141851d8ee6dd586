"""OpenVINO's own files (``.xml`` with ``.bin``) in the IR."""

SUFFIX = ".xml"
"""Suffix of a graph in OpenVINO's own form; its weights lie beside it."""


def is_own(source: str) -> bool:
    """Whether a source is a file of OpenVINO by its name."""
    return source.lower().endswith(SUFFIX)
