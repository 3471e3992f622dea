"""Learned environments, built from the families below."""
