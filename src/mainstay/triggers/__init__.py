"""Inbound that nobody typed: event files, cron times, webhooks."""
