"""What `import tokenworlds as tw` offers in Python: train, load, act, imagine, evaluate."""
