"""Where commands and long-lived processes run: host, bubblewrap, docker."""
