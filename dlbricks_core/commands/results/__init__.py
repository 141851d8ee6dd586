"""Commands that export, merge, prune, record, repeat and show stored results."""
