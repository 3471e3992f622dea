"""Real steps, kept on disk and read back as segments."""
