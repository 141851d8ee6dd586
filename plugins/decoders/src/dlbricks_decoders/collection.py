"""The collection ``llm``: language models by their configuration."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from dlbricks_core.errors import ModelError
from dlbricks_core.files import content
from dlbricks_core.importers import NO_OPTIONS, ImportOptions, ModelCollection, ModelNotes
from dlbricks_core.ir import RawModel
from dlbricks_decoders.architecture import Decoder
from dlbricks_decoders.block_parts import Attention
from dlbricks_decoders.build import build
from dlbricks_decoders.families import decoder_of, text_of
from dlbricks_decoders.genai import BITS, FORM, build_genai, has_form
from dlbricks_decoders.parameters import check_layers, parameters
from dlbricks_decoders.picture_tokens import picture_tokens

_FOLDER = Path(__file__).parent / "configurations"
_FILE = "config.json"
_MAX_BYTES = 1 << 22
"""Maximum bytes of a configuration."""


class LanguageModels(ModelCollection):
    """Decoders of language models, built from the configuration that a model ships with.

    ``llm:PATH/config.json`` names a configuration of the user, ``llm:NAME`` one that ships with
    DLBricks. No weights are read.
    """

    name = "llm"
    forms = (FORM,)

    def names(self) -> Sequence[str]:
        """Names of the configurations that come with DLBricks, the smallest of a family first."""
        return list(_published())

    def load(self, name: str, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Builds the decoder of a configuration.

        Raises:
            ModelError: If there is no such configuration, or decoders like that are not built.
        """
        source, published = f"{self.name}:{name}", _FOLDER / f"{name}.json"
        if "/" not in name and published.exists():
            values = _read(published)
            return _built(decoder_of(values, name), name, source, values, options)
        path = Path(name)
        if not (path.exists() or "/" in name or name.endswith(".json")):
            raise self.unknown(name)
        path = path / _FILE if path.is_dir() else path
        values, part = text_of(_read(path), str(path), options.dtype)
        decoder = decoder_of(values, f"{path}: {part}" if part else str(path), options.dtype)
        check_layers(decoder, str(path))
        return _built(decoder, f"{_name_of(path)} {part}".rstrip(), source, values, options)

    def describe(self, name: str) -> ModelNotes | None:
        """Size and kind of a configuration that comes with DLBricks."""
        values = _published().get(name)
        if values is None:
            return None
        decoder = decoder_of(values, name)
        count = parameters(decoder)
        return ModelNotes(
            title=f"{_spelled(count)} parameters, {_kinds(decoder)}",
            task="text",
            layers=len(decoder.blocks),
            parameters=count,
        )

    def picture_tokens(self, name: str, width: int, height: int) -> int | None:
        """Tokens of a picture in a configuration of the user; ``None`` where they are not known."""
        path = Path(name)
        if "/" not in name and not path.exists():
            return None
        path = path / _FILE if path.is_dir() else path
        return picture_tokens(_read(path), width, height, str(path))

    def unknown(self, name: str) -> ModelError:
        """Error for a name that is neither a file nor a known configuration."""
        error = super().unknown(name)
        return error.with_hint(f"{error.hint}. Or name a file: {self.name}:PATH/{_FILE}")


def _built(
    decoder: Decoder, name: str, source: str, values: dict[str, Any], options: ImportOptions
) -> RawModel:
    """The decoder in the form that is asked for, if it has that form."""
    if options.form == FORM and options.dtype in BITS and has_form(decoder):
        model = build_genai(decoder, name, source, bits=BITS[options.dtype])
    else:
        model = build(decoder, name, source)
    return replace(model, configuration=json.dumps(values, sort_keys=True))


@cache
def _published() -> dict[str, dict[str, Any]]:
    """Configurations that ship with DLBricks, by name, in display order.

    Each has the fields that shape the layers, with the values that the model has on the Hugging
    Face Hub, where ``_name_or_path`` names it.
    """
    found = {path.stem: json.loads(path.read_text()) for path in _FOLDER.glob("*.json")}
    return dict(sorted(found.items(), key=lambda each: _order(*each)))


def _order(name: str, values: dict[str, Any]) -> tuple[str, int, str]:
    decoder = decoder_of(values, name)
    return decoder.family, parameters(decoder), name


def _read(path: Path) -> Any:
    """Reads a configuration of the user.

    Raises:
        ModelError: If the file cannot be read, or is not JSON.
    """
    try:
        read = content(path, _MAX_BYTES)
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise ModelError(
            f"{path}: {why[0].lower()}{why[1:]}",
            hint=f"Name the model's {_FILE}, or a model of: dlbricks list models llm:",
        ) from error
    try:
        return json.loads(read)
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ModelError(
            f"{path} is not JSON{place}", hint=f"Name the {_FILE} that the model ships with."
        ) from error


def _name_of(path: Path) -> str:
    """Name of a model from its file, or from the folder if the file has the usual name."""
    return path.resolve().parent.name if path.name == _FILE else path.stem


def _spelled(count: int) -> str:
    """A number of parameters in words: millions below one billion."""
    return f"{count / 1e9:.2f} billion" if count >= 995e6 else f"{count / 1e6:.0f} million"


def _kinds(decoder: Decoder) -> str:
    """Kinds of blocks in a few words."""
    attentions, feeds = decoder.attentions, [block.feed_forward for block in decoder.blocks]
    words = [_heads(attentions[0])] if attentions else []
    words += [f"encoder of {len(decoder.encoder.blocks)} blocks"] if decoder.encoder else []
    windows = Counter(attention.window for attention in attentions)
    words += [f"{count} of {len(decoder.blocks)} see {window}"
              for window, count in windows.items() if window]  # fmt: skip
    states = sum(bool(block.state_space or block.selective) for block in decoder.blocks)
    words += [f"{states} of {len(decoder.blocks)} keep a state"] if states else []
    experts = next((feed.experts for feed in feeds if feed and feed.experts), None)
    words += [f"{experts.per_token} of {experts.count} experts"] if experts else []
    return ", ".join(words)


def _heads(attention: Attention) -> str:
    words = f"{attention.heads} heads"
    return words + (f" on {attention.kv_heads}" if attention.kv_heads < attention.heads else "")
