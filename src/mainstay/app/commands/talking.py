"""What `chat` and `run` share: the configuration, the model, the agent."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from pathlib import Path

import msgspec

from mainstay.app.agent import Agent
from mainstay.app.commands.homes import home_of
from mainstay.app.config import Config, load_config
from mainstay.app.discover import NO_MODEL_HELP, Found, find_model
from mainstay.core.errors import ConfigError


class NoModel(ConfigError):
    """Nothing was found to ask."""


class Setting(msgspec.Struct, frozen=True):
    """Where a conversation takes place."""

    home: Path
    config: Config
    found: Found

    def agent(self) -> Agent:
        return Agent(
            self.found.spec,
            instructions=self.config.instructions,
            home=self.home,
            base_url=self.found.base_url,
            api_key=os.environ.get(self.found.key_variable) if self.found.key_variable else None,
            config=self.config,
        )


def setting(options: argparse.Namespace) -> Setting:
    home = home_of(options)
    config = load_config(home, env=os.environ).config
    asked: str | None = options.model
    found = Found(asked, None, "you asked for it") if asked else find_model(config, os.environ)
    if found is None:
        raise NoModel(NO_MODEL_HELP)
    return Setting(home, config, found)


def new_session(prefix: str) -> str:
    return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def tell(sentence: str) -> None:
    """A note beside the answer."""
    print(sentence, file=sys.stderr, flush=True)
