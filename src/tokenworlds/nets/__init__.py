"""Building blocks that know nothing of worlds or agents."""
