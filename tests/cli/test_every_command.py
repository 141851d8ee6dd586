"""What holds for the text of commands, whatever is given in place of their arguments."""

import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import click
import onnx
import pytest
from onnx import TensorProto, helper

from dlbricks_core.cli.main import cli

pytestmark = pytest.mark.process

SECRET = "s3cret"

#: URLs with a password, of a database that nobody runs; one is mistyped.
URLS = (
    f"postgresql+psycopg://me:{SECRET}@127.0.0.1:1/results",
    f"postgresql://me@127.0.0.1:1/results?password={SECRET}",
    f"postgres:me:{SECRET}@127.0.0.1:1/results",
)

LONG = "n" * 10_000

#: Parameters of these kinds never hold a text of the user's.
NOT_TEXT = (click.Choice, type(click.INT), type(click.FLOAT), type(click.BOOL))

#: Commands that refuse within a second whatever is wrong; what prints it is common to all of them.
QUICK = {("show", "layers"), ("show", "graph")}


@dataclass(frozen=True)
class Place:
    """A place of a command line where a text may stand."""

    command: tuple[str, ...]
    flag: str
    others: tuple[str, ...]

    def line(self, text):
        given = (f"{self.flag}={text}",) if self.flag else (text,)
        return (*self.command, *given, *self.others)


def leaves(command, words=()):
    """Commands without actions, by the words that name them."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*words, name))


def places():
    """Every place of a command line where a text may stand; a file that is none has the others."""
    for words, command in leaves(cli):
        takes_text = [
            each
            for each in command.params
            if not isinstance(each.type, NOT_TEXT) and not getattr(each, "is_flag", False)
        ]
        for each in takes_text:
            others = tuple(
                "absent.onnx"
                for other in command.params
                if isinstance(other, click.Argument) and other is not each
            )
            others += ("-v",) * any("-v" in other.opts for other in command.params)
            is_option = isinstance(each, click.Option)
            yield Place(words, max(each.opts, key=len) if is_option else "", others)


PLACES = [each for each in places() if each.command in QUICK]


def written(folder):
    """Texts of all files in a folder, and their names."""
    for path in folder.rglob("*"):
        yield str(path.relative_to(folder))
        if path.is_file() and path.suffix in {".json", ".html", ".csv", ".svg", ".txt", ".md"}:
            yield path.read_text("utf-8", "replace")


@pytest.mark.long
@pytest.mark.timeout(60)
@pytest.mark.parametrize("place", PLACES, ids=lambda each: " ".join((*each.command, each.flag)))
def test_no_password_and_no_long_name_is_shown_in_full(dlbricks, tmp_path, place):
    for text in (*URLS, LONG, f"{LONG}.onnx", f"a={LONG}"):
        done = dlbricks(*place.line(text))
        assert done.status in (0, 1, 2, 3), done.err
        for told in (done.out, done.err, *written(tmp_path)):
            assert SECRET not in told
        for line in (done.out + done.err).splitlines():
            assert len(line) < 1500, line


@pytest.fixture
def silent():
    """Port of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def shown(pid):
    """What others see of a process and of those that it has started."""
    command = Path(f"/proc/{pid}/cmdline").read_text()
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return command + "".join(map(shown, below))


def test_a_password_is_in_no_process_title(silent):
    url = f"postgresql://me:{SECRET}@127.0.0.1:{silent}/results"
    command = [sys.executable, "-m", "dlbricks_core.cli", "results", "info", "--store", url]
    masked = f"postgresql://me:***@127.0.0.1:{silent}/results"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            end = time.monotonic() + 30
            # A title is empty for a moment while a process starts.
            while masked not in (title := shown(process.pid)) and time.monotonic() < end:
                time.sleep(0.02)
        finally:
            process.kill()
    assert masked in title
    assert SECRET not in title


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A model whose every name has ten thousand characters."""
    names = {each: each * 10_000 for each in "xyzwd"}
    nodes = [
        helper.make_node("Relu", [names["x"]], [names["z"]], name=names["z"]),
        helper.make_node("S" * 10_000, [names["z"]], [names["w"]], domain=names["d"]),
        helper.make_node("Tanh", [names["z"]], [names["y"]], name=names["y"]),
    ]
    shape = [names["d"], 4]
    ends = [helper.make_tensor_value_info(names[each], TensorProto.FLOAT, shape) for each in "xy"]
    graph = helper.make_graph(nodes, "g" * 10_000, ends[:1], ends[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(names["d"], 1)]
    path = tmp_path_factory.mktemp("named") / "long.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


@pytest.mark.long
@pytest.mark.parametrize(
    "line",
    [
        ("show", "--layers"),
        ("show", "repeats"),
        ("show", "graph", "-o", "g.svg"),
        ("suite", "write", "-o", "suite"),
        ("estimate", "--backend", "onnxruntime", "--store", "s.db"),
        ("check", "layers", "--backend", "onnxruntime", "--store", "s.db", "--runs", "2"),
        ("compare", "outputs", "--backend", "onnxruntime"),
    ],
    ids=lambda line: " ".join(line[:2]),
)
def test_names_in_a_file_are_shortened_wherever_they_are_printed(dlbricks, named, line):
    for given in ((), ("--batch", "2"), ("--dim", f"{'d' * 10_000}=2")):
        done = dlbricks(*line, named, *given, "-v")
        assert done.status in (0, 2, 3), done.err
        for each in (done.out + done.err).splitlines():
            assert len(each) < 1500, each[:200]
