"""In-memory stores: for agents without a home, and for tests."""
