"""Triggers: prompts that come from event files, cron schedules and webhooks."""
