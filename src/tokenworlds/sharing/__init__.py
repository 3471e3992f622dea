"""Agents to share: model cards, the Hugging Face hub, weights of other implementations."""
