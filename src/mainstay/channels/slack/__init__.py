"""Slack: receives by Socket Mode or the Events API, sends through the Web API."""
