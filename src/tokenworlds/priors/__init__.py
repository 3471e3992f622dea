"""Priors: the distribution of the next frame's codes given a history."""
