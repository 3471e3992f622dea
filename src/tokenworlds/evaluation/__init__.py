"""Playing episodes and telling how they went."""
