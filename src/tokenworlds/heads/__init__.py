"""Features to distributions over rewards and endings."""
