"""What the configuration may not say about webhooks, and what becomes of what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mainstay.config.schema_skills import WebhookEntry
from mainstay.config.validation import Keys
from mainstay.core.errors import ConfigError
from mainstay.core.triggers import Hook, Target

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_UNSET = re.compile(r"\$\{([^}]*)\}")
_OTHERS_FORM = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*|%[A-Za-z_][A-Za-z0-9_]*%")  # a variable, as shells write it


def check_webhooks(webhooks: Mapping[str, WebhookEntry], begun: Callable[[Keys], str]) -> None:
    """Raises ConfigError for the first thing that is wrong; `begun` says where that is."""
    from mainstay.triggers.templates import check_template  # only for those who have some

    for name, entry in webhooks.items():
        keys: Keys = ("triggers", "webhooks", name)
        if not NAME.fullmatch(name):
            raise ConfigError(f"{begun(keys)}the webhook {name[:80]!r} must be named with 1 to 64 of a-z, 0-9, _ and -")
        if bool(entry.session) == bool(entry.channel or entry.room) or bool(entry.channel) != bool(entry.room):
            said = "must name a session, or a channel and a room"
            raise ConfigError(f"{begun(keys)}the webhook {name!r} {said}")
        try:
            check_template(entry.template)
        except ConfigError as error:
            raise ConfigError(f"{begun((*keys, 'template'))}the webhook {name!r}: {error}") from None
        if not _UNSET.search(entry.secret):
            hook_of(name, entry)


def hook_of(name: str, entry: WebhookEntry) -> Hook:
    """Raises ConfigError if its secret is none: nothing is taken unsigned."""
    from mainstay.triggers.hooks import check_hook

    for secret in (entry.secret, *entry.others):
        if (unset := _UNSET.search(secret)) is not None:
            raise ConfigError(f"the webhook {name!r} needs its secret: the variable {unset[1]} is not set")
        if _OTHERS_FORM.fullmatch(secret.strip()):  # which may be a secret all the same, and is not repeated
            said = "has the name of a variable for a secret; write it with braces, as ${NAME}"
            raise ConfigError(f"the webhook {name!r} {said}")
    hook = Hook(
        name=name,
        secret=entry.secret,
        others=entry.others,
        scheme=entry.scheme,
        target=Target(session=entry.session, channel=entry.channel, room=entry.room, workspace=entry.workspace),
        text=entry.text,
        template=entry.template,
        window_s=entry.window_s,
        bytes_max=entry.bytes_max,
        paused=entry.paused,
    )
    check_hook(hook)
    return hook
