"""What commands do with a backend that runs blocks of language models only."""

import pytest
from dlbricks_compare.outputs_command import OutputsJob
from dlbricks_llamacpp.backend import LlamaBackend

from dlbricks_core.backends import Backend
from dlbricks_core.commands.options.approach import Approach, Wishes
from dlbricks_core.commands.options.jobs import Models
from dlbricks_core.errors import DLBricksError
from dlbricks_core.progress import Observer


@pytest.mark.parametrize("named", [{"backend": "llamacpp"}, {"backends": ("pytorch", "llamacpp")}])
def test_whole_models_and_bricks_are_compared_in_the_same_rounds(named):
    assert Approach.of_comparison(Wishes(**named)).condition == "cold"


def test_wishes_leave_out_what_is_open():
    found = Wishes.among({"backends": ("pytorch",), "granularity": None, "unknown": 1})
    assert (found.backends, found.granularity, found.blocks_only) == (("pytorch",), None, False)


def test_outputs_are_not_compared(monkeypatch):
    monkeypatch.setattr(LlamaBackend, "version", Backend.version)
    job = OutputsJob(models=Models(["llm:qwen3-0.6b"]), backends=["llamacpp"])
    with pytest.raises(DLBricksError, match="outputs cannot be compared") as caught:
        job.run(Observer())
    assert caught.value.hint == "Leave it out."
