"""Tokens of pictures follow from configurations."""

import json

import pytest
from click.testing import CliRunner
from dlbricks_decoders.collection import LanguageModels
from dlbricks_decoders.picture_tokens import picture_tokens
from dlbricks_sizes import Generation, with_pictures

from dlbricks_core.errors import DLBricksError

LLAVA = {"model_type": "llava", "vision_config": {"image_size": 336, "patch_size": 14}}
QWEN = {"model_type": "qwen2_vl", "vision_config": {"patch_size": 14, "spatial_merge_size": 2}}


@pytest.mark.parametrize(
    ("values", "width", "height", "tokens"),
    [
        (LLAVA, 640, 480, 576),
        ({**LLAVA, "vision_feature_select_strategy": "full"}, 640, 480, 577),
        ({"model_type": "paligemma", "vision_config": {"image_size": 224, "patch_size": 14}},
         640, 480, 256),
        ({"model_type": "gemma3", "mm_tokens_per_image": 256, "vision_config": {}}, 1, 1, 256),
        ({"model_type": "internvl", "vision_config": {"image_size": [448, 448]}}, 640, 480, 256),
        (QWEN, 640, 480, 23 * 17),
        (QWEN, 28, 28, 4),
        ({"model_type": "qwen3_vl", "vision_config": {}}, 640, 480, 20 * 15),
        ({"model_type": "idefics3", "scale_factor": 4,
          "vision_config": {"image_size": 512, "patch_size": 16}}, 640, 480, 13 * 64),
        ({"model_type": "mistral3", "spatial_merge_size": 2,
          "vision_config": {"model_type": "pixtral", "image_size": 1540, "patch_size": 14}},
         640, 480, 24 * 18),
        ({"model_type": "mllama", "vision_config": {"image_size": 448}}, 640, 480, None),
        ({"model_type": "llama"}, 640, 480, None),
    ],
)  # fmt: skip
def test_a_picture_has_as_many_tokens_as_its_family_gives_it(values, width, height, tokens):
    assert picture_tokens(values, width, height, "config.json") == tokens


def test_a_field_that_does_not_fit_is_named():
    values = {**LLAVA, "vision_config": {"patch_size": "fourteen"}}
    with pytest.raises(DLBricksError, match="patch_size"):
        picture_tokens(values, 640, 480, "config.json")


def test_prompts_grow_by_the_tokens_of_all_pictures(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(QWEN))
    spec = f"llm:{path}"
    asked = Generation({"prompt": (10, 20), "batch,generate": ((1, 2),)})
    axes = with_pictures(asked, (2, 280, 280), [spec]).axes
    assert axes == {"prompt": (210, 220), "batch,generate": ((1, 2),)}
    together = with_pictures(Generation({"prompt,generate": ((1, 2),)}), (1, 280, 280), [spec])
    assert together.axes == {"prompt,generate": ((101, 2),)}
    assert with_pictures(Generation({}), (1, 280, 280), [spec]).workloads[0].prompt == 612


def test_models_that_read_no_pictures_are_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAVA))
    with pytest.raises(DLBricksError, match="reads no pictures"):
        with_pictures(Generation({}), (1,), ["llm:gpt2"])
    assert LanguageModels().picture_tokens(str(tmp_path), 1, 1) == 576
    other = tmp_path / "other.json"
    other.write_text(json.dumps(QWEN))
    with pytest.raises(DLBricksError, match="different numbers of tokens"):
        with_pictures(Generation({}), (1,), [f"llm:{path}", f"llm:{other}"])


@pytest.mark.parametrize("text", ["0", "2x640", "a", "1x2x3x4"])
def test_a_bad_number_of_pictures_is_one_line(text):
    from dlbricks_core.commands.estimate.actions import command

    result = CliRunner().invoke(command, ["llm:gpt2", "--backend", "x", "--pictures", text])
    assert result.exit_code == 2
    assert "cannot be a number of pictures" in result.output
