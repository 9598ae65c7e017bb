"""Checks of the choices made in `mainstay init`: model, name, and that no secret is written to mainstay.yaml."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from mainstay.config.loader import FILE, Config
from mainstay.config.template import InitChoices
from mainstay.core.errors import ConfigError
from mainstay.core.provider_manifest import ProviderSettings

NAME_CHARS_MAX = 80


def check_model(spec: str, base_url: str | None) -> None:
    """Raise ConfigError for an unknown provider or a spec without a model. Makes no request and needs no API key."""
    from mainstay.providers import registry

    registry.check_model(spec, ProviderSettings(base_url=base_url))


def find_name_problem(name: str) -> str:
    """Return what is wrong with the agent's name, "" if nothing."""
    if not name.strip() or not name.isprintable() or len(name) > NAME_CHARS_MAX:
        return f"a name must be one line of 1 to {NAME_CHARS_MAX} characters"
    return ""


def refuse_secrets(choices: InitChoices) -> None:
    """Raise ConfigError if a value looks like a secret, or is one of those in the environment."""
    from mainstay.agent.trust_setup import list_known_secrets
    from mainstay.guards.redaction import Redactor

    if choices.base_url and urlsplit(choices.base_url).password:
        raise ConfigError(
            f"the address contains a password, which must not be in {FILE}: remove it, and set the API key's variable"
        )
    redactor = Redactor(list_known_secrets(Config(), os.environ))
    values = {"name": choices.name, "model": choices.model or "", "address": choices.base_url or ""}
    settings = choices.channel.settings if choices.channel is not None else {}
    for what, value in {**values, **settings}.items():
        if redactor.redact(value)[1]:
            raise ConfigError(
                f"the {what} looks like a secret, which must not be in {FILE}: set an environment variable instead"
            )
