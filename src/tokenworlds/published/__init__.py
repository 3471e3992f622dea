"""Published scores as data, with their sources: see SOURCES.md in this package."""
