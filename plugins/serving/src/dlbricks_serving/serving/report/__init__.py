"""Models under load: as tables, as plain data, and as a page."""
