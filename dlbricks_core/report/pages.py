"""HTML pages of results, which distributions write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from dlbricks_core.errors import UnknownPluginError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.plugins import find, names, use
from dlbricks_core.wording import clone_install

ESTIMATE = "estimate"
"""Name of the page of a run or an estimate."""


class ResultPage(ABC):
    """A result as an HTML page.

    Found through the entry-point group ``dlbricks.pages``. The class must be importable without
    what draws a page, because the list of plugins imports it.
    """

    #: Name of the page, equal to the entry point's.
    name: str

    @abstractmethod
    def html(self, result: Any, load: LoadOptions | None) -> str:
        """The whole page.

        Args:
            result: The result that the page is for, such as a ``RunResult``.
            load: How models were read, if known.
        """


def check_pages() -> None:
    """Rejects a page before anything is measured for it.

    Raises:
        UnknownPluginError: If no distribution writes pages.
    """
    if ESTIMATE not in names("page"):
        raise UnknownPluginError(
            "HTML pages come with dlbricks-pages, which is not installed",
            hint=clone_install("plugins/prediction", "plugins/pages"),
        )


def page_of(name: str, result: Any, load: LoadOptions | None = None) -> str:
    """A result as an HTML page.

    Args:
        name: Name of the page.
        result: The result.
        load: How models were read, if known.

    Raises:
        UnknownPluginError: If no distribution writes pages.
        PluginError: If the page is broken.
    """
    check_pages()
    plugin = find("page", name, ResultPage)
    written: str = use(plugin, lambda: plugin.loaded().html(result, load))
    return written
