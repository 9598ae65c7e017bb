"""The mainstay.yaml that `init` writes: what was chosen, and as comments what people change next.

Prose has a space behind its #, a setting has none: whoever takes the # away has it. A test does that with each.
"""

from __future__ import annotations

import msgspec

from mainstay.config import yaml_file

_HEAD = """\
# Mainstay's configuration.
#
# A setting is switched on by taking the # before it away; lines with a space behind the # only explain.
# Then: `mainstay config check`. Every setting there is, with its value now: `mainstay config show`.
# Secrets do not belong here. Name a variable instead, as ${MY_KEY}, and set that where Mainstay is started.
"""

_FAILOVER = """\
# Who is asked when the first one fails, in this order:
#models: [anthropic/claude-haiku-4-5, openai/gpt-4.1-mini]
"""

_PROVIDERS = """\
# A server of your own, or a key from a variable of another name:
#providers:
#  vllm:
#    base_url: http://127.0.0.1:8000/v1
#  openai:
#    api_key: ${MY_KEY}
"""

_MAY = """\
# What it may do. It works in the folder you start it in, and asks before it leaves that or sends something away.
#tools:
#  builtin: [readonly]            # only looking: read, grep, glob, ls; without this: all tools
#  protected: [.env, secrets]     # files that nobody reads through it
#policy:
#  allow: ["bash(git *)"]         # without a question
#  ask: [write, edit]             # only after one
#  deny: ["bash(git push *)"]     # never
"""

_SANDBOX = """\
# Commands run in a sandbox that has no network. To let them install packages and the like:
#sandbox:
#  network: true
"""

_LIMITS = """\
# A bound on everything; these are the defaults.
#limits:
#  steps_max: 25                  # model calls in one turn
#  tool_timeout_s: 30             # one tool call
#  model_timeout_s: 300           # one model call
"""

_CHANNELS = """\
# A chat platform to be on, while `mainstay serve` runs; `mainstay channel add KIND` writes one and says what to do.
#channels:
#  telegram:
#    token: ${TELEGRAM_BOT_TOKEN}
"""

_SERVER = """\
# Where `mainstay serve` listens. Others reach it once you say so, and with a key (`mainstay user add`, `user key`):
#server:
#  host: 0.0.0.0
#  port: 7460
"""


class Channel(msgspec.Struct, frozen=True):
    """A chat platform, with its entry as it is written."""

    kind: str
    entry: dict[str, str]


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the file is made of."""

    name: str
    model: str | None = None
    base_url: str | None = None
    workspace: str = "default"
    channel: Channel | None = None


def draft(wishes: Wishes) -> str:
    written = yaml_file.written
    told = f"Your name is {wishes.name}. Be helpful, brief and honest."
    instructions = f"# What the agent is told before anything else.\ninstructions: {written(told)}\n"
    parts = [_HEAD, _model(wishes), _FAILOVER, _providers(wishes), instructions, _workspace(wishes)]
    return "\n".join([*parts, _MAY, _SANDBOX, _LIMITS, _channels(wishes), _SERVER])


def _model(wishes: Wishes) -> str:
    about = "# The model to ask, as <provider>/<model>. Its key comes from the environment (ANTHROPIC_API_KEY …).\n"
    if wishes.model:
        return f"{about}model: {yaml_file.written(wishes.model)}\n"
    without = "# Without one, whatever is found is asked: `mainstay doctor` says what.\n"
    return f"{about}{without}#model: anthropic/claude-haiku-4-5\n"


def _providers(wishes: Wishes) -> str:
    if not (wishes.model and wishes.base_url):
        return _PROVIDERS
    provider = yaml_file.written(wishes.model.partition("/")[0])
    address = yaml_file.written(wishes.base_url)
    return f"# Where the model is reached.\nproviders:\n  {provider}:\n    base_url: {address}\n"


def _workspace(wishes: Wishes) -> str:
    mark = "#" if wishes.workspace == "default" else ""
    about = "# Whose conversations and memory. Others are made with `mainstay workspace create`, and share nothing.\n"
    return f"{about}{mark}workspace: {yaml_file.written(wishes.workspace)}\n"


def _channels(wishes: Wishes) -> str:
    if wishes.channel is None:
        return _CHANNELS
    lines = [f"    {key}: {yaml_file.written(value)}\n" for key, value in wishes.channel.entry.items()]
    head = f"# Chat platforms to be on, while `mainstay serve` runs.\nchannels:\n  {wishes.channel.kind}:"
    return f"{head}\n{''.join(lines)}" if lines else f"{head} {{}}\n"
