"""An unexpected exception is blamed on the plugin whose code was running."""

import importlib
import re
import sys

import pytest

from dlbricks_core.plugins import blamed

SOURCES = {
    "composer": "import re\n\ndef fail():\n    return [].nothing\n\n"
    "def misuse():\n    re.compile('(')\n",
    "metric": "def fail():\n    raise ValueError('two\\nlines')\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed distribution with a composer and a metric, each in a module of its own."""
    folder, info = tmp_path / "strange", tmp_path / "strange_plugins-1.0.dist-info"
    folder.mkdir()
    info.mkdir()
    (folder / "__init__.py").touch()
    for kind, source in SOURCES.items():
        (folder / f"{kind}.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[dlbricks.{k}s]\nmy-{k} = strange.{k}:Good\n" for k in SOURCES)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield {kind: importlib.import_module(f"strange.{kind}") for kind in SOURCES}
    for name in [name for name in sys.modules if name.partition(".")[0] == "strange"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("kind", "function", "told"),
    [
        ("composer", "fail", "composer 'my-composer': AttributeError: 'list' object"),
        ("composer", "misuse", "composer 'my-composer': error: missing ), unterminated"),
        ("metric", "fail", "metric 'my-metric': ValueError: two lines"),
    ],
)
def test_the_plugin_whose_module_ran_is_named(package, kind, function, told):
    with pytest.raises(Exception) as caught:
        getattr(package[kind], function)()
    error = blamed(caught.value)
    assert error.message.startswith(told)
    assert error.hint == "Report this to the authors of strange-plugins."


@pytest.mark.usefixtures("package")
def test_without_a_plugin_on_the_stack_nobody_is_blamed():
    with pytest.raises(re.error) as caught:
        re.compile("(")
    assert blamed(caught.value) is None


def test_the_command_line_names_the_plugin_and_not_itself(dlbricks, package, monkeypatch):
    fail = package["composer"].fail
    monkeypatch.setattr(
        "dlbricks_core.commands.options.models.load_models", lambda *_, **__: fail()
    )
    done = dlbricks("show", "a.onnx")
    assert done.status == 2
    assert done.err.splitlines() == [
        "Error: composer 'my-composer': AttributeError: 'list' object has no attribute 'nothing'",
        "Hint: Report this to the authors of strange-plugins.",
    ]
    assert "Traceback" in dlbricks("show", "a.onnx", "-v").err
