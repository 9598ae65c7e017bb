"""The terminal that the gateway was started in, as a channel."""
