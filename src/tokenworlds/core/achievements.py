"""Achievements of an episode, as environments report and evaluations count them."""

ACHIEVEMENT = "achievement/"
"""Prefix of the names in `EnvStep.info` that count achievements."""
