"""This machine: what its system tells, how busy and how ready it is."""
