"""Commands that list model collections and plugins."""
