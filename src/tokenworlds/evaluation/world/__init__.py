"""`tokenworlds evaluate RUN --world`: how good a world model is, and which part is at fault."""
