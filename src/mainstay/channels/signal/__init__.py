"""Signal, by signal-cli's daemon."""
