"""Slack: in socket mode or by the Events API, and back by the Web API."""
