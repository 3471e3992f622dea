"""Runs and dreams in a browser: a local server and a page. Run folders are only read."""
