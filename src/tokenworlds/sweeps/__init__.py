"""Sweeps: many runs from one command, each an ordinary run folder in a folder of runs."""
