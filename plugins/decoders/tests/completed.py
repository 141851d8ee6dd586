"""Configurations with the fields that transformers fills in; it has to be installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dlbricks_decoders.families import decoder_of
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from dlbricks_core.errors import ModelError


def their_class(family: str) -> type:
    """The class of a family's configurations in transformers, of its text part where it has one."""
    found = CONFIG_MAPPING[family]
    return found.sub_configs.get("text_config", found)


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with every field that transformers knows.

    Raises:
        ValueError: If transformers does not accept the configuration.
    """
    fields = {name: value for name, value in config.items() if name != "model_type"}
    try:
        theirs = their_class(config["model_type"])(**fields).to_dict()
    except Exception as error:
        raise ValueError(str(error)) from error
    plain = json.loads(json.dumps(theirs, default=str))
    return {**plain, "model_type": config["model_type"]}


def outcome(config: Mapping[str, Any]) -> object:
    """The decoder that a configuration describes, or why there is none."""
    try:
        return decoder_of(config, "config.json")
    except ModelError as error:
        return error.message
