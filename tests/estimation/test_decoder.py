"""Dimensions of decoders, by the names that exporters give them."""

import pytest
from dlbricks_sizes import Generation
from dlbricks_sizes.decoder import NAMES, DecoderDimensions

from dlbricks_core.errors import ModelError
from dlbricks_core.passes.options import OpenDimension


def opened(*triples):
    return [OpenDimension(*each) for each in triples]


def decoder(sequence, past, mask="total_sequence_length"):
    return opened(
        ("input_ids", 0, "b"), ("input_ids", 1, sequence), ("attention_mask", 1, mask),
        ("past_key_values.0.key", 0, "b"), ("past_key_values.0.key", 2, past),
    )  # fmt: skip


def sizes(dimensions, sequence, past):
    return dict(DecoderDimensions.of("net", dimensions).sizes(sequence, past, 1).dims)


@pytest.mark.parametrize("sequence", sorted(NAMES["sequence"]))
@pytest.mark.parametrize("past", ["past", "past_sequence_length", "PAST_SEQ_LEN", "cache_length"])
def test_usual_names_are_known(sequence, past):
    expected = {sequence: 7, past: 5, "total_sequence_length": 12}
    assert sizes(decoder(sequence, past), 7, 5) == expected


def test_no_name_has_two_meanings():
    every = [name for names in NAMES.values() for name in names]
    assert len(every) == len(set(every))


def test_parts_of_expressions_get_the_sizes():
    dimensions = decoder("sequence_length", "past_sequence_length",
                         "past_sequence_length + sequence_length")  # fmt: skip
    assert sizes(dimensions, 1, 9) == {"sequence_length": 1, "past_sequence_length": 9}


def test_inputs_tell_what_names_do_not():
    assert sizes(decoder("s0", "s1", "s2"), 4, 8) == {"s0": 4, "s1": 8, "s2": 12}
    places = decoder("input_ids.1", "past_key_values.0.key.2", "attention_mask.1")
    assert sizes(places, 4, 0)["past_key_values.0.key.2"] == 0


@pytest.mark.parametrize(
    ("dimensions", "lacking"),
    [([], "new tokens or the cache"),
     (opened(("input_ids", 0, "batch"), ("input_ids", 1, "sequence")), "the cache"),
     (opened(("past_key_values.0.key", 2, "past")), "new tokens"),
     (opened(("image", 2, "height")), "new tokens or the cache")],
)  # fmt: skip
def test_other_models_are_refused_with_what_they_have(dimensions, lacking):
    with pytest.raises(ModelError, match=f"for {lacking}(\n|$)") as raised:
        DecoderDimensions.of("net", dimensions)
    assert "pen dimension" in raised.value.hint


@pytest.mark.parametrize("symbol", ["encoder_sequence_length_out", "kv_len", "s7"])
@pytest.mark.parametrize(
    "cache", ["past_key_values.0.encoder.key", "past_key_cross_0", "encoder_hidden_states"]
)
def test_what_an_encoder_made_is_no_cache_of_the_decoder(cache, symbol):
    dimensions = [
        *opened(("input_ids", 1, "sequence"), (cache, 2, symbol)),
        *opened(("past_key_values.0.decoder.key", 2, "past")),
    ]
    assert sizes(dimensions, 1, 9) == {"sequence": 1, "past": 9}
    with pytest.raises(ModelError, match="for the cache"):
        DecoderDimensions.of("net", dimensions[:-1])


ENCODING = [
    *decoder("sequence", "past"),
    *opened(("encoder_input_ids", 1, "encoder_sequence"),
            ("past_key_values.0.encoder.key", 2, "encoder_sequence")),
]  # fmt: skip


def test_an_encoder_reads_the_prompt_and_the_decoder_begins_with_one_token():
    first, *tokens = Generation({"prompt": (9,), "generate": (3,)}).sizes("net", ENCODING)
    assert dict(first.dims) == {
        "sequence": 1, "past": 0, "total_sequence_length": 1, "encoder_sequence": 9
    }  # fmt: skip
    assert [(dict(each.dims)["past"], dict(each.dims)["encoder_sequence"]) for each in tokens] == [
        (1, 9), (2, 9)
    ]  # fmt: skip
    assert (first.phase, first.text) == ("prompt", "1 after 0 of 9 encoded")


def test_no_tokens_come_before_the_prompt_of_an_encoder():
    with pytest.raises(ModelError, match="has an encoder, so no tokens"):
        Generation({"depth": (5,)}).sizes("net", ENCODING)
