"""Measuring: protocols, sessions, statistics, and the system that is measured on."""
