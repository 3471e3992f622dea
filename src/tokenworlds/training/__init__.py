"""Recipes, learners and the one loop that trains them."""
