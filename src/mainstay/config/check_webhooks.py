"""Checks the configuration of webhooks, and converts an entry to a `Webhook`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mainstay.config.schema_skills_patterns_triggers import WebhookEntry
from mainstay.config.schema_validator import Keys
from mainstay.core.errors import ConfigError
from mainstay.core.triggers import TriggerTarget, Webhook

WEBHOOK_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_UNSET_VARIABLE = re.compile(r"\$\{([^}]*)\}")
# a variable in shell or Windows syntax
_SHELL_VARIABLE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*|%[A-Za-z_][A-Za-z0-9_]*%")


def check_webhooks(webhooks: Mapping[str, WebhookEntry], position_of: Callable[[Keys], str]) -> None:
    """Raise ConfigError for the first mistake; `position_of` returns the position of a key, which begins the error."""
    from mainstay.triggers.webhook_templates import check_template  # only needed for webhooks

    for name, entry in webhooks.items():
        keys: Keys = ("triggers", "webhooks", name)
        if not WEBHOOK_NAME.fullmatch(name):
            raise ConfigError(
                f"{position_of(keys)}the webhook {name[:80]!r} must be named with 1 to 64 of a-z, 0-9, _ and -"
            )
        if bool(entry.session) == bool(entry.channel or entry.room) or bool(entry.channel) != bool(entry.room):
            rule = "must name either a 'session', or a 'channel' and a 'room'"
            raise ConfigError(f"{position_of(keys)}the webhook {name!r} {rule}")
        try:
            check_template(entry.template)
        except ConfigError as error:
            raise ConfigError(f"{position_of((*keys, 'template'))}the webhook {name!r}: {error}") from None
        if not _UNSET_VARIABLE.search(entry.secret):
            build_webhook(name, entry)


def build_webhook(name: str, entry: WebhookEntry) -> Webhook:
    """Convert an entry to a `Webhook`. Raises ConfigError if a secret is unusable: no unsigned delivery is accepted."""
    from mainstay.triggers.webhook_app import check_webhook

    for secret in (entry.secret, *entry.others):
        if (unset := _UNSET_VARIABLE.search(secret)) is not None:
            raise ConfigError(f"the webhook {name!r} needs its secret: the environment variable {unset[1]} is not set")
        if _SHELL_VARIABLE.fullmatch(secret.strip()):  # the error does not quote it: it may be a secret all the same
            rule = "has a variable's name as its secret; write it as ${NAME}"
            raise ConfigError(f"the webhook {name!r} {rule}")
    hook = Webhook(
        name=name,
        secret=entry.secret,
        other_secrets=entry.others,
        scheme=entry.scheme,
        target=TriggerTarget(session=entry.session, channel=entry.channel, room=entry.room, workspace=entry.workspace),
        text=entry.text,
        template=entry.template,
        window_s=entry.window_s,
        bytes_max=entry.bytes_max,
        paused=entry.paused,
    )
    check_webhook(hook)
    return hook
