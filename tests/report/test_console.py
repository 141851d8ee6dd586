"""What reaches a terminal: names as they are, and nothing that drives it."""

import io
import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.commands.options.progress import ProgressBar
from dlbricks_core.report.tables import Console, lines, styled, table
from dlbricks_core.sanitize import cell, sanitized, without_secrets

NAMES = [
    "Strange[/x]",
    "[old]",
    "[bold red]x[/]",
    ":smile:",
    "a\\[b",
    "$x^2$",
    "ünï 士\xa0☃",
    "[link=x]",
]


def safe(text):
    """Whether there are only letters, signs and blanks in it."""
    return not any(unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" for c in text)


def printed(*things, terminal=False):
    console = Console(file=io.StringIO(), width=200, force_terminal=terminal)
    for thing in things:
        console.print(thing)
    return console.file.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_unchanged_everywhere(name):
    rows = table(name, name, left=2)
    rows.title = rows.caption = name
    rows.add_row(name, styled(name, (name, "bold")))
    shown = printed(name, styled(("Note:", "yellow"), name), lines(name, styled(name)), rows)
    assert shown.count(name) == 11


@given(
    st.text(st.characters()) | st.text("\x1b[31m\x07\x9b\x85\r\n\t\u202e\u2066\u200b\udce9\ud800")
)
def test_nothing_that_is_printed_controls_a_terminal(text):
    rows = table(text, "", left=2)
    rows.title = rows.caption = text
    rows.add_row(text, styled(text))
    for line in printed(text, styled(text), lines(text, text), rows).split("\n"):
        assert safe(line)


@given(st.text(st.characters()))
def test_harmless_text_is_printable_and_unchanged(text):
    once = sanitized(text)
    assert safe(once)
    assert sanitized(once) == once
    if safe(text):
        assert once == text


def test_escapes_are_those_of_python():
    assert sanitized("\x1b\x7f\x85\u202e\ud800\U000e0001\n") == (
        r"\x1b\x7f\x85\u202e\ud800\U000e0001\n"
    )
    assert sanitized(b"caf\xe9".decode("utf-8", "surrogateescape")) == r"caf\xe9"


@pytest.mark.parametrize(
    "text",
    [
        "postgrsql://me:s3cret@host/db",
        "postgresql:me:s3/cret@host/db",
        "PG://me:s3@cret@host",
        "postgresql://me@host/db?password=s3cret",
        "https://host/file?token=s3cret&x=1",
        "'postgres:me:s3cret@host/db'",
        "[Errno 2] '/tmp/postgres:me:s3cret@host/db'",
        "--store=pg:me:s3cret@host",
        "'/tmp/postgresql;//me:s3cret@host/db'",
        "postgresql://me:s3\u2028cret@host",
    ],
)
def test_no_password_is_left_of_any_url(text):
    assert "cret" not in without_secrets(f"{text} does not exist")
    assert "host" in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "pg" * 100_000,
        "/pg:" * 50_000,
        "postgres" * 25_000,
        "?" + "pass" * 50_000,
        "postgres:/a/" * 20_000 + "?",
    ],
    ids=lambda text: text[:9],
)
def test_a_name_of_any_length_is_looked_through_once(text):
    begin = time.process_time()
    without_secrets(text)
    assert time.process_time() - begin < 5  # it was minutes, where letters are seen n times


@pytest.mark.parametrize("text", ["torch:models:make@2", "/tmp/a:b@c.onnx", "1:2 @ 3", "x::y@z"])
def test_other_texts_stay_as_they_are(text):
    assert without_secrets(text) == text


#: Signs with which a spreadsheet begins a formula.
SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@pytest.mark.parametrize("sign", ["", *SIGNS])
@given(st.text(st.characters(codec="ascii"), max_size=6))
def test_no_cell_is_a_formula(sign, text):
    text = sign + text
    shown = cell(text)
    assert shown in (text, f"'{text}")
    number = re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", text)
    assert number or not shown.startswith(SIGNS)


def test_long_names_are_shortened_in_the_middle():
    name = "a" * 5000 + "b" * 5000
    console = Console(file=io.StringIO(), width=1000)
    console.print(f"layer {name} is long", styled((name, "bold")))
    shown = console.file.getvalue()
    assert len(shown) < 1000
    assert shown.count("aaa...bbb") == 2
    assert "is long" in shown


def test_a_progress_bar_that_goes_on_beyond_its_steps_promises_no_end():
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with ProgressBar(console) as progress:
        progress.stage("Timing", 2)
        for _ in range(5):
            progress.advance()
    last = next(line for line in reversed(console.file.getvalue().splitlines()) if "left" in line)
    assert "5/?" in last
    assert "00:00" not in last.rpartition("left")[2]


def test_a_progress_bar_shows_names_unchanged():
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    with ProgressBar(console, verbose=True) as progress:
        progress.stage("Timing [old] \x1b]0;title\x07 :smile:", 3)
        progress.note("\x1b[2Jnote [/x]")
        progress.advance()
    shown = console.file.getvalue()
    assert shown.count(r"Timing [old] \x1b]0;title\x07 :smile:") >= 2
    assert r"\x1b[2Jnote [/x]" in shown
    assert "\x07" not in shown


@pytest.mark.parametrize("width", [20, 40, 80])
def test_numbers_of_a_table_are_whole_in_a_narrow_terminal(width):
    console = Console(file=io.StringIO(), width=width)
    row = ("a_long_name_of_a_model", "1234", "1200-1300", "bricks 11 of 11")
    console.print(table("Model", "Estimate", "90% interval", "Rests on", rows=[row]))
    out = console.file.getvalue()
    assert "1234    1200-1300 bricks 11 of 11" in out
    assert ("a_long_name_of_a_model" in out) == (width == 80)  # names are folded
