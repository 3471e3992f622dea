"""A family of components that do nothing, for swaps by name."""
