"""Configurations, values and interfaces shared by every part."""
