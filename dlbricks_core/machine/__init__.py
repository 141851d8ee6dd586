"""This machine: facts about its system, its load, and whether it is ready to measure."""
