"""What the codes of the next frame may be, given a history."""
