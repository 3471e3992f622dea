"""Ways to choose actions, and to learn to, inside a world."""
