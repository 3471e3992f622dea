"""Tokenizers: frames to discrete codes (or Gaussian latents) and back; one member per file."""
