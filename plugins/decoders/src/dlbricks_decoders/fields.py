"""Fields of a configuration, read strictly: unknown fields are refused by name."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from dlbricks_core.errors import ModelError, shown
from dlbricks_core.wording import listed

T = TypeVar("T")

_NONE: Any = object()

_MOST = 2**24
"""Maximum number of anything: tokens, positions, elements."""

_MOST_NAMED = 4
"""Maximum number of unknown fields that a message names."""

_SHIPPED = "Take the config.json that the model ships with."

HARMLESS = frozenset({
    "activation_dropout", "architectures", "attention_probs_dropout_prob",
    "attention_softmax_in_fp32", "attn_implementation", "attn_pdrop", "auto_map", "bad_words_ids",
    "begin_suppress_tokens", "bias_dropout_fusion", "bos_token", "bos_token_id",
    "cache_implementation", "chunk_size_feed_forward", "classifier_dropout", "custom_pipelines",
    "decoder_start_token_id", "diversity_penalty", "do_sample", "dropout", "dtype",
    "early_stopping", "embd_pdrop", "embedding_dropout", "encoder_no_repeat_ngram_size",
    "eos_token", "eos_token_id", "expert_dropout", "exponential_decay_length_penalty", "finetuned",
    "finetuning_task", "forced_bos_token_id", "gradient_checkpointing", "hidden_dropout",
    "id2label", "ignore_keys_at_rope_validation", "init_std", "initializer_range", "is_composition",
    "is_decoder", "is_llama_config", "label2id", "layerdrop", "length_penalty",
    "masked_softmax_fusion", "max_length", "max_sequence_length", "min_length", "model_max_length",
    "model_type", "n_ctx", "n_special", "name_or_path", "no_repeat_ngram_size", "num_beam_groups",
    "num_beams", "num_labels", "num_return_sequences", "offset_alibi", "output_attentions",
    "output_hidden_states", "output_past", "output_router_logits", "output_scores", "pad_token",
    "pad_token_id", "predict_special_tokens", "prefix", "pretraining_tp", "problem_type",
    "pruned_heads", "remove_invalid_values", "reorder_and_upcast_attn", "repetition_penalty",
    "resid_pdrop", "residual_dropout", "return_dict", "return_dict_in_generate",
    "router_aux_loss_coef", "router_jitter_noise", "router_z_loss_coef",
    "scale_attention_softmax_in_fp32", "sep_token_id", "seq_length", "skip_bias_add",
    "skip_bias_add_qkv", "slow_but_exact", "summary_activation", "summary_first_dropout",
    "summary_proj_to_labels", "summary_type", "summary_use_proj", "suppress_tokens",
    "task_specific_params", "temperature", "tf_legacy_loss", "tie_encoder_decoder",
    "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript", "transformers.js_config",
    "transformers_version", "typical_p", "unk_token_id", "unsloth_fixed", "unsloth_version",
    "use_bfloat16", "use_cache", "use_return_dict",
})  # fmt: skip
"""Fields that do not affect the layers: those of training, generation and tokenizers."""

_HARMLESS_ENDINGS = ("_dropout", "_token_id", "_token_ids", "_pdrop", "_version")


class Fields:
    """Fields of a configuration, or of a part of one.

    Args:
        values: The fields.
        source: Name of the configuration for messages.
        part: Name of the part in the configuration; empty for the whole.
        usual: Values of fields that the configuration leaves out under all of their names.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        source: str,
        part: str = "",
        usual: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._values = values
        self._source = source
        self._part = part
        self._usual = usual
        self._read: set[str] = set()

    def get(self, *names: str) -> Any:
        """Value of the first field that is present; ``None`` if none is.

        All names count as read.
        """
        self._read.update(names)
        stated = any(map(self.given, names))
        values = self._values if stated else self._usual
        return next((values[name] for name in names if values.get(name) is not None), None)

    def ignore(self, *names: str) -> None:
        """Marks fields as read that do not affect the layers."""
        self._read.update(names)

    def given(self, name: str) -> bool:
        """Whether the field is present, even if it is null."""
        return name in self._values

    def integer(self, *names: str, default: Any = _NONE, most: int = _MOST) -> Any:
        """A positive integer.

        Args:
            names: Names of the field; the first one that is present counts.
            default: Value of a missing field.
            most: Maximum value.

        Raises:
            ModelError: If the value is invalid, or missing without a default.
        """
        value = self._value(names, default)
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        fits = is_integer and 0 < value <= most
        return self._checked(names, value, default, fits, f"an integer from 1 to {most}")

    def number(self, *names: str, default: Any = _NONE) -> Any:
        """A finite number; arguments and errors as for :meth:`integer`."""
        value = self._value(names, default)
        is_number = _is_finite(value)
        checked = self._checked(names, value, default, is_number, "a finite number")
        return float(checked) if is_number else checked

    def positive(self, *names: str, default: Any = _NONE) -> Any:
        """A number above 0; arguments and errors as for :meth:`integer`."""
        value = self.number(*names, default=default)
        return self._checked(names, value, default, value is not None and value > 0,
                             "a positive number")  # fmt: skip

    def flag(self, *names: str, default: bool) -> bool:
        """True or false; arguments and errors as for :meth:`integer`."""
        value = self._value(names, default)
        return bool(self._checked(names, value, default, isinstance(value, bool), "true or false"))

    def choice(self, *names_and_table: Any, default: Any = _NONE) -> Any:
        """The entry of a table for a field's text.

        Args:
            names_and_table: Names of the field, and the table as a mapping among them.
            default: Text of a missing field.

        Raises:
            ModelError: If the table has no such entry.
        """
        (table,) = (each for each in names_and_table if isinstance(each, Mapping))
        names = tuple(each for each in names_and_table if isinstance(each, str))
        value = self._value(names, default)
        if not isinstance(value, str) or value not in table:
            raise self.refusal(self._found(names), value, f"Supported: {', '.join(sorted(table))}.")
        return table[value]

    def only(self, name: str, *allowed: Any) -> None:
        """Refuses all but some values of a field; a missing field is accepted."""
        value = self.get(name)
        if value is not None and value not in allowed:
            known = ", ".join(_spelled(each) for each in allowed)
            raise self.refusal(name, value, f"Supported: {known}.")

    def list_of_numbers(self, name: str, length: int) -> list[float]:
        """A list of numbers of a known length."""
        value = self.get(name)
        if (
            not isinstance(value, list)
            or len(value) != length
            or not all(_is_finite(each) and each > 0 for each in value)
        ):
            raise self._misfit(name, value, f"{length} positive numbers")
        return [float(each) for each in value]

    def list_of(self, name: str, allowed: Sequence[Any], length: int) -> list[Any] | None:
        """A list of known values, one for each block; ``None`` if it is missing."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != length:
            raise self._misfit(name, value, f"a list of {length} entries, one for each layer")
        for each in value:
            if each not in allowed:
                known = ", ".join(map(_spelled, allowed))
                raise self.refusal(name, each, f"Supported: {known}.")
        return value

    def part(self, *names: str) -> Fields:
        """A part that is a mapping; an empty one if it is missing."""
        value = self.get(*names)
        name = self._found(names)
        if value is not None and not isinstance(value, dict):
            raise self._misfit(name, value, "an object")
        return Fields(value or {}, self._source, f"{self._part}{name}.")

    def with_default(self, name: str, value: Any) -> Fields:
        """The fields with a default for a missing field; both share their read fields."""
        found = Fields({name: value, **self._values}, self._source, self._part, self._usual)
        found._read = self._read
        found.ignore(name)
        return found

    def replaced(self, name: str, value: Any) -> Fields:
        """The fields with another value of one field; both share their read fields."""
        found = Fields({**self._values, name: value}, self._source, self._part, self._usual)
        found._read = self._read
        return found

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def check_all_read(self) -> None:
        """Refuses fields that were not read and may change which layers run.

        Raises:
            ModelError: If there is one. Empty fields (null, false, 0, or empty) and those of
                :data:`HARMLESS` are exempt.
        """
        unknown = [
            self._part + shown(name).strip("'")
            for name, value in self._values.items()
            if value and name not in self._read and not _is_harmless(name)
        ]
        if unknown:
            field, them = ("fields", "those that do") if unknown[1:] else ("field", "it if it does")
            raise ModelError(
                f"{self._source}: unknown {field} {listed(unknown, _MOST_NAMED)}",
                hint=f"Remove {them} not change which layers run.",
            )

    def refusal(self, name: str, value: Any, hint: str) -> ModelError:
        """Error for an unsupported value."""
        return ModelError(
            f"{self._source}: {self._part}{name} {_spelled(value)} is not supported", hint=hint
        )

    def _value(self, names: tuple[str, ...], default: Any) -> Any:
        value = self.get(*names)
        return default if value is None else value

    def _checked(
        self, names: tuple[str, ...], value: Any, default: Any, fits: bool, kind: str
    ) -> Any:
        if value is _NONE:
            raise ModelError(
                f"{self._source}: {self._part}{names[0]} is missing",
                hint=_SHIPPED,
            )
        if not fits and value is not default:
            raise self._misfit(self._found(names), value, kind)
        return value

    def _found(self, names: tuple[str, ...]) -> str:
        """The name under which a field is present; the usual name if it is missing."""
        return next((each for each in names if each in self), names[0])

    def _misfit(self, name: str, value: Any, kind: str) -> ModelError:
        return ModelError(
            f"{self._source}: {self._part}{name} is {_spelled(value)}, not {kind}",
            hint=_SHIPPED,
        )


def _is_harmless(name: str) -> bool:
    return name in HARMLESS or name.startswith("_") or name.endswith(_HARMLESS_ENDINGS)


def _is_finite(value: Any) -> bool:
    """Whether a value is a number that can be computed with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _spelled(value: Any) -> str:
    """A value in JSON notation, abbreviated so that it can be found in the file."""
    words = {True: "true", False: "false", None: "null"}
    if isinstance(value, bool) or value is None:
        return words[value]
    return _short.repr(value)


_LENGTHS = {"string": 40, "other": 40, "long": 40, "list": 3, "dict": 3, "level": 2}
"""Maximum length of a value of each kind in messages."""

_short = reprlib.Repr()
for _kind, _most in _LENGTHS.items():
    setattr(_short, f"max{_kind}", _most)
