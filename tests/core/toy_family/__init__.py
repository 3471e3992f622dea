"""A family of components that do nothing, to be swapped by name."""
