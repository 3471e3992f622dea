"""No component lives here."""

ANSWER = 42
