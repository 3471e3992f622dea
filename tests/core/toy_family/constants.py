"""A module without a component."""

ANSWER = 42
