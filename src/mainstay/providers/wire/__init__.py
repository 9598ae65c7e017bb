"""HTTP client for model APIs: connections, streams, rate-limit headers, errors."""
