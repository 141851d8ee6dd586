"""Pages: their commands run, what they generate is current, and they stay short."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from dlbricks_serving.contention import passes

from dlbricks_core.cli import main
from dlbricks_core.cli.main import cli

for framework in ("onnxruntime", "torch"):
    pytest.importorskip(framework)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

#: A block that is run: the exit status, if it is not 0, and the commands.
RUN = re.compile(r"^ *<!-- run(?:: (\d+))? -->\n *```bash\n(.*?)^ *```", re.DOTALL | re.MULTILINE)

#: A block of Python that is run.
PYTHON = re.compile(r"^<!-- run -->\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

#: The configuration of a model that a page shows, and its commands name.
CONFIGURATION = re.compile(r"`config\.json`:\n\n```json\n(.*?)^```", re.DOTALL | re.MULTILINE)

#: Commands that time something take two runs here: what they print is not looked at.
TIMING = {
    *(("estimate",), ("check",), ("compare",), ("serve",), ("suite", "time")),
    ("machine", "calibrate"),
}

#: Commands among them that take no number of runs.
NOT_TIMING = {("compare", "outputs")}

#: Files in the place of whole networks, on all pages but the first that a reader comes to.
SMALL = {"onnx:squeezenet": "c.onnx", "onnx:shufflenet": "b.onnx"}
FIRST = DOCS / "guide" / "first-estimate.md"


def blocks(page):
    return [(int(s or 0), code) for s, code in RUN.findall(page.read_text(encoding="utf-8"))]


def arguments(line, small=SMALL):
    """What a command line says: of small networks, quick and on one thread where it times."""
    program, *words = shlex.split(line)
    assert program == "dlbricks", line
    words = [small.get(word, word) for word in words]
    command = words if words[0] in cli.list_commands(None) else ["estimate"]
    names = {tuple(command[:1]), tuple(command[:2])}
    if names & TIMING and not names & NOT_TIMING:
        fixed = "--precision" in words or command[0] == "serve" or "--forget" in words
        runs = () if fixed else ("--runs", "2")
        words = [*words, *runs, "--threads", "1"]
    if "--scenario" in words and names & TIMING:
        words = [*words, "--instances", "1"]
    if "study" in command and "--from" not in words:
        words = [*words, "--threads", "1"]
    return words


@pytest.mark.parametrize(
    "page", [p for p in sorted(DOCS.rglob("*.md")) if blocks(p)], ids=lambda p: p.stem
)
@pytest.mark.usefixtures("kept_workers")
def test_commands_of_pages_run(page, perceptron, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    # Under load for less time than good figures need.
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.1)
    perceptron("a.onnx", "batch", "sequence")
    perceptron("b.onnx", 1, 4)
    perceptron("c.onnx", 2, 4)
    small = {} if page == FIRST else SMALL
    if found := CONFIGURATION.search(page.read_text(encoding="utf-8")):
        Path("config.json").write_text(found[1], encoding="utf-8")
    for status, code in blocks(page):
        for line in code.strip().splitlines():
            with pytest.raises(SystemExit) as ended:
                main(arguments(line, small))
            assert ended.value.code == status, f"{line}\n{capfd.readouterr().err}"


@pytest.mark.parametrize(
    "page", [p for p in sorted(DOCS.rglob("*.md")) if PYTHON.search(p.read_text("utf-8"))],
    ids=lambda p: p.stem,
)  # fmt: skip
def test_python_of_pages_prints_its_comments(page, perceptron, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    perceptron("a.onnx", "batch", "sequence")
    for code in PYTHON.findall(page.read_text(encoding="utf-8")):
        exec(compile(code, str(page), "exec"), {})
        expected = [line[2:] for line in code.splitlines() if line.startswith("# ")]
        assert capsys.readouterr().out.splitlines() == expected


def test_many_commands_are_run():
    assert sum(len(blocks(page)) for page in DOCS.rglob("*.md")) > 15


@pytest.mark.parametrize(
    ("page", "most"),
    [(page, most) for room, most in (("explain", 120), ("results", 80))
     for page in sorted(DOCS.joinpath(room).glob("*.md"))],
    ids=str,
)  # fmt: skip
def test_pages_that_stay_short(page, most):
    assert len(page.read_text(encoding="utf-8").splitlines()) <= most


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted(ROOT.glob("research/*.md"))], ids=lambda p: p.stem
)
def test_links_of_pages_outside_of_the_site_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not page.parent.joinpath(link).exists()] == []


def test_pages_that_the_code_names_are_there():
    files = [*ROOT.glob("dlbricks_core/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    named = {n for f in files for n in re.findall(r"docs/[\w/-]+\.md", f.read_text("utf-8"))}
    assert named
    assert {name for name in named if not (ROOT / name).exists()} == set()
