"""Families of networks that join those of the core when all others are drawn."""
