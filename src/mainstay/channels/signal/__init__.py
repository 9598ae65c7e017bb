"""Signal, through the signal-cli daemon."""
