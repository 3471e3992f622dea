"""Building blocks, independent of worlds and behaviours."""
