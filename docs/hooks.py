"""Fills pages from the code: commands of click, fields of the schema, passes, figures."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import click
from dlbricks_fleet.settings import OVERRIDES

from dlbricks_core.cli.main import cli
from dlbricks_core.passes.lower_layers import FROM_FORM, TO_FORM, lower_layers
from dlbricks_core.passes.normalize import BINDING, FINISHING, PREPARING
from dlbricks_core.passes.pipeline import Pass

SCHEMA = Path(__file__).parent / "reference" / "dlbricks.schema.json"
HEADLINES = Path(__file__).parent / "results" / "headlines.toml"

#: As docstrings refer to code, once Markdown has seen them: the role, the code.
ROLE = re.compile(r":(?:mod|class|func|meth|attr|data):<code>~?([^<]*)</code>")


def on_page_markdown(markdown: str, **_more: Any) -> str:
    """Puts what is generated in place of its mark."""
    for mark, text in MARKS.items():
        if mark in markdown:
            markdown = markdown.replace(mark, "\n".join(text()))
    return markdown


def on_page_content(html: str, **_more: Any) -> str:
    """Code that docstrings refer to is shown as code."""
    return ROLE.sub(r"<code>\1</code>", html)


def commands() -> Iterator[str]:
    """A section for each command: what it does, how it is used, and its options."""
    with click.Context(cli, info_name="dlbricks") as top:
        for name, command in members(cli, top):
            yield from section(name, command, top, "##")


def members(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Commands of a group, by name."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield name, command


def section(name: str, command: click.Command, parent: click.Context, mark: str) -> Iterator[str]:
    """A command, and below it the commands that it has itself."""
    context = click.Context(command, parent=parent, info_name=name)
    title = context.command_path.removeprefix("dlbricks ")
    yield f"{mark} {title}\n"
    if not isinstance(command, click.Group):
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```text\ndlbricks {title} {usage}\n```\n"
    yield f"{plain(inspect.cleandoc(command.help or ''))}\n"
    if isinstance(command, click.Group):
        for each, own in members(command, context):
            yield from section(each, own, context, f"{mark}#")
        return
    yield "| option | meaning |\n|---|---|"
    for option in command.get_params(context):
        found = option.get_help_record(context)
        if found and found[1]:
            yield f"| <code>{cell(escape(found[0]))}</code> | {cell(plain(found[1]))} |"
    yield ""


def overrides() -> Iterator[str]:
    """A row for each setting of Dask that fleets override."""
    yield "| setting of Dask | in a fleet | because |\n|---|---|---|"
    for name, each in OVERRIDES.items():
        short = name.removeprefix("distributed.")
        value = json.dumps(each.value).strip('"')
        yield f"| `{short}` | `{value}` | {cell(plain(each.reason))} |"
    yield ""


def plain(text: str) -> str:
    """Help text as Markdown: what users type between quotes becomes code."""
    text = re.sub(r"([*<\[])", r"\\\1", text)
    return re.sub(r"'(dlbricks [^']*|-+\w[^']*|[a-z]+)'", r"`\1`", text)


def cell(text: str) -> str:
    """Text in a cell of a table."""
    return " ".join(text.split()).replace("|", "&#124;")


def fields() -> Iterator[str]:
    """A section for each object of the schema: what it is, and a table of its fields."""
    for name, found in json.loads(SCHEMA.read_text("utf-8"))["$defs"].items():
        yield f"### {name}\n\n{found['description']}\n"
        if "properties" in found:
            yield "| field | type | meaning |\n|---|---|---|"
            for field, value in found["properties"].items():
                yield f"| `{field}` | {kind(value)} | {cell(value['description'])} |"
            yield ""


def kind(value: dict[str, Any]) -> str:
    """A type in a few words, with a link where it is an object of its own."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "anyOf" in value:
        return " or ".join(map(kind, value["anyOf"]))
    if "enum" in value:
        return " or ".join(f"`{each}`" for each in value["enum"])
    types = value.get("type", "any")
    if not isinstance(types, str):
        first, *more = types
        return " or ".join([kind({**value, "type": first}), *more])
    if types == "array":
        return f"list of {kind(value['items'])}"
    inner = value.get("additionalProperties")
    return f"{kind(inner)} by name" if types == "object" and inner is not None else types


def passes() -> Iterator[str]:
    """A table of all passes in order: what each does, requires and ensures."""
    yield "| pass | what it does | requires | ensures |\n|---|---|---|---|"
    for each in (*BINDING, *PREPARING, lower_layers, *FINISHING):
        yield row(each, "")
        if each is lower_layers:
            for step in (*TO_FORM, *FROM_FORM):
                yield row(step, "… ")


def row(each: Pass[..., Any], indent: str) -> str:
    """A row of the table of passes."""
    name = each.run.__name__
    what = plain((inspect.getdoc(each.run) or "").partition("\n")[0]).replace("``", "`")
    sides = ("; ".join(sorted(p.value for p in side)) for side in (each.requires, each.ensures))
    return f"| {indent}`{name}` | {cell(what)} | {' | '.join(map(cell, sides))} |"


def headlines() -> Iterator[str]:
    """A table of all headline figures, each with its command, system and day."""
    yield "| what | figures | system | day | command |\n|---|---|---|---|---|"
    for each in tomllib.loads(HEADLINES.read_text("utf-8")).values():
        figures = ", ".join(f"{name} {text}" for name, text in each["figures"].items())
        what = f"[{each['what']}]({each['page']})"
        words = (what, figures.replace("_", " "), each["system"], str(each["date"]))
        yield f"| {' | '.join(map(cell, words))} | `{cell(each['command'])}` |"
    yield ""


MARKS: dict[str, Callable[[], Iterator[str]]] = {
    "<!-- commands of the code -->": commands,
    "<!-- fields of the schema -->": fields,
    "<!-- headline figures -->": headlines,
    "<!-- overrides of Dask -->": overrides,
    "<!-- passes of the code -->": passes,
}
