"""Heads: the reward and the termination of a step, predicted from a feature."""
