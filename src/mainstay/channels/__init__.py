"""Chat platforms, one folder each, that implement the ChatChannel protocol of core/channels."""

COMPONENTS = {
    "slack": "mainstay.channels.slack.manifest",
    "telegram": "mainstay.channels.telegram.manifest",
    "discord": "mainstay.channels.discord.manifest",
    "matrix": "mainstay.channels.matrix.manifest",
    "signal": "mainstay.channels.signal.manifest",
    "webhook": "mainstay.channels.webhook.manifest",
    "terminal": "mainstay.channels.terminal.manifest",
}
