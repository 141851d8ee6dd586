"""Sizes of a sweep, from the command line and from Python."""

import click
import pytest
from dlbricks_sizes import Generation, Sweep

from dlbricks_core.api.inputs import checked
from dlbricks_core.commands.options.several_sizes import sizes_of
from dlbricks_core.errors import DLBricksError

OPEN = {"prompt": None, "generate": None, "task": None, "pictures": None, "batch": None, "dims": ()}

TYPED = {
    "sequence=1,128,1": Sweep({"sequence": (1, 128)}),
    "batch,sequence=1x128,8x32,1x128": Sweep({"batch,sequence": ((1, 128), (8, 32))}),
    "prompt,generate=64x16,512x8": Generation({"prompt,generate": ((64, 16), (512, 8))}),
}


def asked(*sweeps, **given):
    return sizes_of({**OPEN, "sweeps": sweeps, **given}, ())


@pytest.mark.parametrize("text", TYPED)
def test_sizes_are_typed_with_commas_between_and_together_with_an_x(text):
    assert asked(text) == TYPED[text]


@pytest.mark.parametrize("text", TYPED)
def test_sizes_in_python_are_numbers_or_tuples(text):
    axes = {name: list(sizes) for name, sizes in TYPED[text].axes.items()}
    assert checked(axes=axes)["axes"] == TYPED[text].axes


@pytest.mark.parametrize("sizes", [["1x2"], [(1, -2)], [(1, "2")], [1.5], "12", [[[1]]]], ids=str)
def test_other_sizes_in_python_are_refused(sizes):
    with pytest.raises(DLBricksError, match="axes cannot be"):
        checked(axes={"a,b": sizes})


@pytest.mark.parametrize("text", ["a,b=1x,2x3", "a,b=1xq", "a=1,,2"])
def test_other_texts_are_refused(text):
    with pytest.raises(click.BadParameter, match="write sizes with commas between"):
        asked(text)


def test_a_dimension_of_several_may_not_be_given_by_itself():
    with pytest.raises(click.BadParameter, match="sequence is also given by itself"):
        asked("batch,sequence=1x2", dims=("sequence=3",))
    with pytest.raises(click.BadParameter, match="prompt is also given by itself"):
        asked("batch,prompt=1x2", prompt=4)


def test_pictures_are_in_prompts_alone():
    with pytest.raises(click.UsageError, match="--pictures needs --prompt"):
        asked("sequence=1,2", pictures=(1,))
