"""One file per paper: each recipe is the paper's table."""
