"""Stores in PostgreSQL databases, which many machines share."""
