"""The mainstay.yaml that `mainstay init` writes: the choices made, and common settings as comments.

A comment in prose has a space after its #, a commented-out setting has none, so that removing the # enables it; a
test does that with each of them.
"""

from __future__ import annotations

import msgspec

from mainstay.config import yaml_file
from mainstay.core.builtin_tool_table import list_tool_names

_HEADER = """\
# Mainstay's configuration.
#
# To enable a setting, remove the # in front of it; lines with a space after the # are explanations.
# Then run `mainstay config check`. `mainstay config show` prints every setting with its current value.
# Do not write secrets here: use ${MY_KEY}, and set that environment variable where Mainstay is started.
"""

_FAILOVER = """\
# Models to use if the first one fails, in this order:
#models: [anthropic/claude-haiku-4-5, openai/gpt-4.1-mini]
"""

_PROVIDERS = """\
# A model server of your own, or an API key from another environment variable:
#providers:
#  vllm:
#    base_url: http://127.0.0.1:8000/v1
#  openai:
#    api_key: ${MY_KEY}
"""

_PERMISSIONS = f"""\
# Permissions. The agent works in the folder it is started in, and needs approval to leave it or to send data out.
#tools:
#  builtin: [readonly]            # only {", ".join(list_tool_names("readonly"))}; default: all tools
#  protected: [.env, secrets]     # files hidden from tools and commands
#policy:
#  allow: ["bash(git *)"]         # without approval
#  ask: [write, edit]             # only with approval
#  deny: ["bash(git push *)"]     # never
"""

_SANDBOX = """\
# Commands run in a sandbox without network access. To let them install packages, for example:
#sandbox:
#  network: true
"""

_LIMITS = """\
# Limits; these are the defaults.
#limits:
#  steps_max: 25                  # model calls in one turn
#  tool_timeout_s: 30             # for one tool call
#  model_timeout_s: 300           # for one model call
"""

_CHANNELS = """\
# Chat platforms, connected while `mainstay serve` runs; `mainstay channel add KIND` adds one and lists the steps.
#channels:
#  telegram:
#    token: ${TELEGRAM_BOT_TOKEN}
"""

_SERVER = """\
# Where `mainstay serve` listens. To accept other machines, set the host, and create API keys (`mainstay user key`):
#server:
#  host: 0.0.0.0
#  port: 7460
"""


class ChannelChoice(msgspec.Struct, frozen=True):
    """A chat platform, and its settings as they are written to mainstay.yaml."""

    kind: str
    settings: dict[str, str]


class InitChoices(msgspec.Struct, frozen=True, kw_only=True):
    """The choices made in `mainstay init`."""

    name: str
    model: str | None = None
    base_url: str | None = None
    workspace: str = "default"
    channel: ChannelChoice | None = None


def render_config(choices: InitChoices) -> str:
    """Return the text of mainstay.yaml."""
    written = yaml_file.to_yaml
    prompt = f"Your name is {choices.name}. Be helpful, brief and honest."
    instructions = f"# Instructions for the agent, at the start of every session.\ninstructions: {written(prompt)}\n"
    parts = [
        _HEADER,
        _render_model(choices),
        _FAILOVER,
        _render_providers(choices),
        instructions,
        _render_workspace(choices),
    ]
    return "\n".join([*parts, _PERMISSIONS, _SANDBOX, _LIMITS, _render_channels(choices), _SERVER])


def _render_model(choices: InitChoices) -> str:
    about = "# The model, as <provider>/<model>. Its API key comes from the environment (ANTHROPIC_API_KEY …).\n"
    if choices.model:
        return f"{about}model: {yaml_file.to_yaml(choices.model)}\n"
    default = "# Without one, the first model that is found is used: `mainstay doctor` shows which.\n"
    return f"{about}{default}#model: anthropic/claude-haiku-4-5\n"


def _render_providers(choices: InitChoices) -> str:
    if not (choices.model and choices.base_url):
        return _PROVIDERS
    provider = yaml_file.to_yaml(choices.model.partition("/")[0])
    address = yaml_file.to_yaml(choices.base_url)
    return f"# The address of the model's server.\nproviders:\n  {provider}:\n    base_url: {address}\n"


def _render_workspace(choices: InitChoices) -> str:
    mark = "#" if choices.workspace == "default" else ""
    about = "# The workspace. Each has its own sessions and memory; `mainstay workspace create` makes another.\n"
    return f"{about}{mark}workspace: {yaml_file.to_yaml(choices.workspace)}\n"


def _render_channels(choices: InitChoices) -> str:
    if choices.channel is None:
        return _CHANNELS
    lines = [f"    {key}: {yaml_file.to_yaml(value)}\n" for key, value in choices.channel.settings.items()]
    head = f"# Chat platforms, connected while `mainstay serve` runs.\nchannels:\n  {choices.channel.kind}:"
    return f"{head}\n{''.join(lines)}" if lines else f"{head} {{}}\n"
