"""Alembic migrations of the result database."""
