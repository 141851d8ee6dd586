"""Completion of command lines by shells, which pass the words and the place of the cursor."""

import pytest


@pytest.mark.parametrize(
    ("words", "incomplete", "offered"),
    [
        ("dlbricks", "est", ["estimate"]),
        ("dlbricks -q", "che", ["check"]),
        ("dlbricks check", "", ["accuracy", "layers", "trace"]),
        ("dlbricks machine", "sur", ["survey"]),
        ("dlbricks check layers", "--comp", ["--composer"]),
        ("dlbricks check", "--comp", ["--composer"]),
        ("dlbricks", "--comp", ["--composer"]),
        ("dlbricks m.onnx --backend", "x", []),
        ("dlbricks m.onnx", "--comp", ["--composer"]),
        ("dlbricks estimate m.onnx --format", "", ["text", "csv", "markdown"]),
    ],
)
def test_words_that_a_shell_offers(dlbricks, monkeypatch, words, incomplete, offered):
    monkeypatch.setenv("COMP_WORDS", f"{words} {incomplete}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    monkeypatch.setenv("_DLBRICKS_COMPLETE", "bash_complete")
    done = dlbricks()
    assert done.out.split() == [f"plain,{each}" for each in offered]
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize("shell", [pytest.param("bash", marks=pytest.mark.process), "zsh", "fish"])
def test_the_script_of_each_shell(dlbricks, monkeypatch, shell):
    monkeypatch.setenv("_DLBRICKS_COMPLETE", f"{shell}_source")
    done = dlbricks()
    assert done.status == 0
    assert f"_DLBRICKS_COMPLETE={shell}_complete" in done.out
