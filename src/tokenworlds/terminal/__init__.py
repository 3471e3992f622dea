"""What a run prints while it trains."""
