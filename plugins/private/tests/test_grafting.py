"""Sequences put together keep the names of their tensors apart, however often that is done."""

from dlbricks_prediction.survey.families import Draft
from dlbricks_private.grafting import grafted, in_a_row


def chain(*operators):
    draft = Draft()
    x = draft.input(1, 8)
    for each in operators:
        x = draft.add(each, x)
    return draft.model("chain")


def computed(model):
    return [name for layer in model.layers for name in layer.outputs]


def test_a_sequence_that_replaced_another_is_replaced_in_part():
    piece = chain("Tanh", "Sigmoid", "Tanh")
    once = grafted(chain("Relu", "Relu", "Relu"), [((1,), piece)])
    twice = grafted(once, [((1,), grafted(piece, [((1,), piece)]))])
    again = grafted(twice, [((0,), piece), ((3,), grafted(piece, [((1,), piece)]))])
    assert [layer.op for layer in again.layers].count("Relu") == 1
    for model in (once, twice, again):
        assert len(set(computed(model))) == len(model.layers)


def test_more_than_two_sequences_stand_in_a_row():
    piece = chain("Tanh", "Sigmoid")
    model = in_a_row(in_a_row(piece, piece), piece)
    assert len(set(computed(model))) == len(model.layers) == 6
