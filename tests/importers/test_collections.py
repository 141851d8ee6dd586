"""Named models and what users write about shapes."""

import pytest

from dlbricks_core.errors import ModelError
from dlbricks_core.importers import parse_shape
from dlbricks_core.importers.light import LightModels


def test_all_nine_light_networks_load():
    collection = LightModels()
    names = collection.names()
    assert len(names) == 9
    for name in names:
        model = collection.load(name)
        assert model.name == name
        assert model.source == f"onnx:{name}"
        assert len(model.layers) > 10


def test_the_prefix_light_may_be_left_out():
    assert LightModels().load("resnet50").source == "onnx:light_resnet50"


def test_unknown_name_suggests_near_ones():
    with pytest.raises(ModelError, match="no model 'resnet5'") as caught:
        LightModels().load("resnet5")
    assert "light_resnet50" in caught.value.hint


def test_texts_of_shapes_are_parsed():
    assert parse_shape("1x3x224x224") == (1, 3, 224, 224)
    assert parse_shape("7") == (7,)
    assert parse_shape("1x2x0x8") == (1, 2, 0, 8)
    assert parse_shape("0") == (0,)


@pytest.mark.parametrize("text", ["", "1x", "00x3", "0x01", "1,3", "-1x3", "x"])
def test_other_texts_of_shapes_are_refused(text):
    with pytest.raises(ValueError, match="not a shape"):
        parse_shape(text)
