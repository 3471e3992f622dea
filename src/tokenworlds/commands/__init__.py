"""The commands, one per file: options, help and output.

Modules that need torch are imported when a command runs, so that help appears at once.
"""
