"""Terminal: the one that the gateway was started in."""
