"""``dlbricks plugins``: lists the installed plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import Output
from dlbricks_core.report import SCHEMA_VERSION, table
from dlbricks_core.report.console import styled
from dlbricks_core.workflows.status import plugin_statuses


@click.command("plugins")
@options.json_option
@options.quiet_options
def command(**values: Any) -> int:
    """List plugins of every kind, and problems with them."""
    output = Output(values)
    statuses = plugin_statuses()
    shown = table("Kind", "Name", "Package", "Framework", "Status", left=5)
    for status in statuses:
        plugin = status.plugin
        state = styled(("broken", "red") if status.problem else ("ok", "green"))
        package = f"{plugin.distribution} {plugin.version}"
        framework = status.framework or "-"
        shown.add_row(plugin.kind, plugin.name, package, framework, state)
    output.console.print(shown)
    for status in statuses:
        name = f"{status.plugin.kind} {status.plugin.name}"
        if status.problem:
            output.console.print(styled((f"{name}:", "red"), f" {status.problem}"))
            output.console.print(f"  Cure: {status.cure}")
        if status.capabilities:
            output.console.print(styled((f"{name}:", "bold"), f" {_told(status.capabilities)}"))
        for option, about in status.options.items():
            choices = "|".join(about.choices)
            output.console.print(
                f"  --backend-option {option}={choices} (default {about.default}): {about.help}"
            )
    output.write_json(
        {"schema_version": SCHEMA_VERSION, "plugins": [status.to_dict() for status in statuses]}
    )
    return 0


def _told(capabilities: Mapping[str, Any]) -> str:
    """Capabilities of a plugin, in words."""
    parts = []
    for key, value in capabilities.items():
        if key == "isolated":
            parts += ["loads in a process of its own"] if value else []
        elif isinstance(value, int):
            parts.append(f"{value} {key}")
        elif isinstance(value, list):
            parts.append(f"{key.replace('_', ' ')} {', '.join(value) or 'none'}")
        else:
            parts.append(f"{key} {value}")
    return "; ".join(parts)
