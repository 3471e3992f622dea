"""Agents that learn from pixels inside a world model made of discrete tokens."""
