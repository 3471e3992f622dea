"""Names of the facts of a game that are known to more than one part."""

ACHIEVEMENT = "achievement/"
"""How the name of a fact begins that counts how often something was achieved in a game."""
