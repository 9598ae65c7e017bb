"""HTTP in and out, for anything that is no chat platform."""
