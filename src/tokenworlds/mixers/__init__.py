"""State mixers: the codes and the action of a step as one vector for the sequence model."""
