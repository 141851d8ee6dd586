"""Functions in Python."""

import dlbricks_private
import dlbricks_suite
import pytest

from dlbricks_core.errors import DLBricksError

pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True)
def own_store(kept_workers, monkeypatch, tmp_path):
    """Keeps the user's own store out of the tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_a_private_suite_makes_its_way_in_python_as_on_the_command_line(tmp_path):
    written = dlbricks_private.generate(
        "onnx:light_squeezenet", tmp_path / "suite", backend="onnxruntime",
        decoys=1, decoys_from=["onnx:light_vgg19"],
    )  # fmt: skip
    numbers = written.to_dict()["private"]
    assert numbers["true"] + numbers["decoys"] == len(written)
    assert min(numbers["true"], numbers["decoys"]) > 0
    assert f"{numbers['decoys']} of them decoys" in repr(written)
    assert written.key == tmp_path / "suite.key.json"
    how = {"backend": "onnxruntime", "runs": 2}
    timed = dlbricks_suite.bench(tmp_path / "suite", results=tmp_path / "r.zst", threads=1, **how)
    assert len(timed) == len(written)
    (row,) = dlbricks_private.estimate(written.key, tmp_path / "r.zst", **how)
    assert row["estimate"] > 0
    assert not row["partial"]
    with pytest.raises(DLBricksError, match="already holds a suite"):
        dlbricks_private.generate("onnx:light_squeezenet", tmp_path / "suite")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"decoys": -1}, "decoys takes a whole number, 0 or more."),
        ({"decoys_from": "onnx:"}, "decoys_from takes a list of models and collections"),
        ({"granularity": 0}, "granularity takes a whole number of layers, 1 or more."),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_written(tmp_path, arguments, hint):
    with pytest.raises(DLBricksError) as caught:
        dlbricks_private.generate("onnx:light_squeezenet", tmp_path / "suite", **arguments)
    assert caught.value.hint.startswith(hint)
    assert not (tmp_path / "suite").exists()


def test_every_function_is_there():
    assert set(dlbricks_private.__all__) <= set(dir(dlbricks_private))
    assert all(hasattr(dlbricks_private, name) for name in dlbricks_private.__all__)
