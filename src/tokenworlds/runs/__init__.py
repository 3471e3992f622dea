"""Run folders: recipes, specifications, checkpoints and metrics on disk."""
