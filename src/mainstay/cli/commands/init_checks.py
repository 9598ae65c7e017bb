"""What `init` refuses to write: models that nobody knows, names of several lines, and secrets."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from mainstay.cli.commands.init_draft import Wishes
from mainstay.config.loading import FILE, Config
from mainstay.core.errors import ConfigError

NAME_CHARS_MAX = 80


def check_model(spec: str, base_url: str | None) -> None:
    """Raises ConfigError for a provider that nobody knows, or no model at all. Nothing is asked, and no key needed."""
    from mainstay.providers import catalogue
    from mainstay.providers.local import weights

    provider, _, name = spec.partition("/")
    if provider == "local" and name:
        if not name.endswith(weights.OWN):
            weights.find(name)  # it may be brought later
        return
    catalogue.make(spec, base_url=base_url, api_key="none-is-needed-to-know-the-name")


def wrong_name(name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name) > NAME_CHARS_MAX:
        return f"a name is one line of 1 to {NAME_CHARS_MAX} characters"
    return ""


def refuse_secrets(wishes: Wishes) -> None:
    """By their looks, and those that are in the environment already."""
    from mainstay.agent.trust import known_secrets
    from mainstay.trust.guards.redact import Redactor

    if wishes.base_url and urlsplit(wishes.base_url).password:
        raise ConfigError(
            f"the address holds a password, which is not written into {FILE}: give it without, and the key"
        )
    redactor = Redactor(known_secrets(Config(), os.environ))
    told = {"name": wishes.name, "model": wishes.model or "", "address": wishes.base_url or ""}
    settings = wishes.channel.entry if wishes.channel is not None else {}
    for what, value in {**told, **settings}.items():
        if redactor.whole(value)[1]:
            raise ConfigError(
                f"the {what} looks like a secret, and none is written into {FILE}; set a variable instead"
            )
