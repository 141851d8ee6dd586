"""Reads an HTML page as a browser would, and checks that it needs no other files."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

_VOID = {"meta", "br", "img", "link", "input", "hr"}
_LOADS = {"src", "href", "xlink:href", "srcset", "data", "action", "poster"}


class Page(HTMLParser):
    """Follows elements, and collects ids, references, text and drawings.

    Args:
        source: The page.
        files: What it may refer to beside its own parts.
    """

    def __init__(self, source, files=()):
        super().__init__()
        self.open, self.tags, self.ids, self.references, self._text = [], [], [], [], []
        self.feed(source)
        self.close()
        self.drawings = re.findall(r"<svg.*?</svg>", source, flags=re.DOTALL)
        self._check(source, files)

    @property
    def plots(self):
        """What the plots show; each is there for wide screens and for phones."""
        return set(re.findall(r'<svg role="img" aria-label="([^"]*)"', "".join(self.drawings)))

    @property
    def text(self):
        return "".join(self._text)

    def _check(self, source, files):
        assert self.open == []
        assert source.startswith("<!doctype html>")
        assert not {"script", "link", "iframe", "img", "object"} & set(self.tags)
        within = {reference for reference in self.references if reference.startswith("#")}
        assert set(self.references) - within == set(files)
        assert {reference[1:] for reference in within} <= set(self.ids)
        assert len(self.ids) == len(set(self.ids))
        assert "@import" not in source
        assert all(url.startswith("#") for url in re.findall(r"url\(['\"]?([^)]*)\)", source))
        for drawing in self.drawings:
            root = ElementTree.fromstring(drawing)
            assert root.get("aria-label")
            assert root.get("viewBox")
        # No colour of a drawing is fixed: all come from the page, for light and for dark.
        assert not re.findall(r"(?:fill|stroke): #", " ".join(self.drawings))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            if name == "id":
                self.ids.append(value)
            if name in _LOADS:
                self.references.append(value)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        self._text.append(data)
