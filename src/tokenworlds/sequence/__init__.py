"""Functions of history behind one contract: scan equals repeated step."""
