"""Runs: recipe, specification, folder, checkpoints and metrics."""
