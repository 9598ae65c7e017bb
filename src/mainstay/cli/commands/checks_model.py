"""What `doctor` looks at of models: each that is configured is asked something tiny, side by side.

Only an answer shows that address, key and name are right. What runs on this machine by itself is started and asked
only by those who want it: that takes as long as loading it does.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import aclosing

import msgspec

from mainstay.agent.discover import KEYS, Found, find_model, servers
from mainstay.cli.chat.words import count, dollars
from mainstay.cli.commands.checks import Finding
from mainstay.cli.commands.checks_address import Reached, Target, is_here, key_of, reach, shown_address, where_it_is
from mainstay.cli.commands.talking import reaching
from mainstay.config.schema import Config, ModelEntry
from mainstay.core.errors import (
    ConfigError,
    MainstayError,
    ModelSilent,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestRefused,
    StreamBroken,
    Unauthorised,
    Unreachable,
)
from mainstay.core.messages import Message, Text, Usage
from mainstay.core.ports import Context, Finished, Options, Provider
from mainstay.core.workers import in_thread

MODEL_S = 60.0
DEEP_S = 300.0  # with a model that has to be loaded first
SLOW_S = 15.0
REACH_S = 10.0
SKEW_WARN_S, SKEW_FAIL_S = 60.0, 300.0  # signed requests are refused from about here
OUTPUT_TOKENS = 16  # the answer is one word; some APIs take no smaller bound
LOCAL = "local"
TARGETS_MAX = 20
_CLOCK = "set the system's date and time (timedatectl set-ntp true), or those of that machine"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How thoroughly to look."""

    offline: bool = False
    deep: bool = False
    seconds: float = MODEL_S

    @property
    def bound_s(self) -> float:
        return max(self.seconds, DEEP_S) if self.deep else self.seconds


async def models(config: Config, wish: Wish) -> list[Finding]:
    found: Found | None = await in_thread(lambda: find_model(config, os.environ))
    targets = _targets(config, found)
    lines = [_nothing_found()] if found is None else []
    if wish.offline:
        return lines + [_unasked(one) for one in targets]
    told = await asyncio.gather(*(_one(one, wish) for one in targets))
    others = await asyncio.gather(*(_reached(one) for one in _bare_providers(config, targets)))
    return [*lines, *(finding for findings in (*told, *others) for finding in findings)]


def _targets(config: Config, found: Found | None) -> list[Target]:
    """Every model that somebody named, each once; the first is the one that answers."""
    made: dict[str, Target] = {}

    def add(spec: str | None, how: str, base_url: str | None = None, key_variable: str = "") -> None:
        if spec and spec not in made and len(made) < TARGETS_MAX:
            made[spec] = Target(_alone(config, Found(spec, base_url, how, key_variable)), spec, how)

    if found is not None:
        add(found.spec, found.how, found.base_url, found.key_variable)
    for entry in config.models:
        add(entry if isinstance(entry, str) else entry.model, "it stands in models, in case another fails")
    add(config.sessions.memory.compaction.summary_model, "it writes the summaries")
    for name, workspace in config.workspaces.items():
        add(workspace.model, f"the workspace {name} has it")
    return list(made.values())


def _alone(config: Config, found: Found) -> Config:
    """This model only, and asked once."""
    entries = [one for one in config.models if isinstance(one, ModelEntry) and one.model == found.spec]
    limits = msgspec.structs.replace(config.limits, retries_max=0)
    return msgspec.structs.replace(reaching(config, found), model=None, models=tuple(entries), limits=limits)


def _bare_providers(config: Config, targets: list[Target]) -> Iterator[Target]:
    """Those that are configured although no model of theirs is."""
    asked = {one.provider for one in targets}
    for name in config.providers:
        if name not in asked and name != LOCAL:
            yield Target(config, f"{name}/", "it stands in providers")


# --- asking --------------------------------------------------------------------------------------


async def _one(target: Target, wish: Wish) -> list[Finding]:
    if target.provider == LOCAL:
        from mainstay.cli.commands.checks_local import weights_of  # for those who have some

        findings: list[Finding] = await in_thread(lambda: weights_of(target, deep=wish.deep))
        if not wish.deep or any(one.verdict == "FAIL" for one in findings):
            return findings
        return [*findings, await _asked(target, wish, None)]
    reached = await reach(target, REACH_S)
    return [await _asked(target, wish, reached), *_skew(reached)]


async def _asked(target: Target, wish: Wish, reached: Reached | None) -> Finding:
    began = time.monotonic()
    try:
        provider = _provider(target)
        async with asyncio.timeout(wish.bound_s):
            usage = await _try(provider)
    except TimeoutError:
        says = f"{target.spec} did not answer within {wish.bound_s:g} s"
        return Finding("Model", "FAIL", says, _too_slow(target))
    except MainstayError as error:
        return _failed(target, error, reached)
    took_s = time.monotonic() - began
    says = f"{target.spec} answered in {_time(took_s)} ({_spent(target, provider, usage)}); {target.how}"
    if took_s > SLOW_S:
        return Finding("Model", "warn", f"{says}, which is slow", _too_slow(target))
    return Finding("Model", "ok", says)


def _provider(target: Target) -> Provider:
    from mainstay.agent.models import Models  # the HTTP client is loaded only by those who use it

    return Models(target.spec, None, None, target.config).choose("")


async def _try(provider: Provider) -> Usage:
    question = Message(1, "user", (Text("Say ok."),))
    try:
        stream = provider.stream(Context("", [question]), Options(output_tokens=OUTPUT_TOKENS))
        async with aclosing(stream) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if isinstance(piece, Finished):
                    return piece.usage
    finally:
        await provider.close()
    return Usage()


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.0f} s"


def _spent(target: Target, provider: Provider, usage: Usage) -> str:
    tokens = count(usage.prompt + usage.completion, "token")
    if cost := dollars(provider.model().cost(usage)):
        return f"{tokens}, {cost}"
    return f"{tokens}, price not known" if key_of(target) else tokens


def _unasked(target: Target) -> Finding:
    """Offline it can still be seen whether there is a key, and such a provider at all."""
    try:
        _provider(target)
    except ConfigError as error:
        return _failed(target, error, None)
    return Finding("Model", "ok", f"{target.spec}: {target.how}; not asked (--offline)")


# --- what is wrong, and what to do ---------------------------------------------------------------


def _failed(target: Target, error: MainstayError, reached: Reached | None) -> Finding:
    details = error.details if isinstance(error, ProviderError) else ""
    says = f"{target.spec}: {error}" + (f" ({details})" if details and details not in str(error) else "")
    busy = isinstance(error, RateLimited | Overloaded)
    return Finding("Model", "warn" if busy else "FAIL", says, _remedy(target, error, reached))


def _remedy(target: Target, error: MainstayError, reached: Reached | None) -> str:
    if target.provider == LOCAL:
        return f"mainstay model list; mainstay model pull {target.name} brings it anew"
    match error:
        case Unauthorised():
            return f"give a key that is good: {where_it_is(target)}"
        case RateLimited() | Overloaded():
            return "wait a while, and try again; or name another in `models` to turn to meanwhile"
        case ModelSilent():
            return _too_slow(target)
        case RequestRefused() if reached is not None and reached.models:
            return _others(target, reached.models)
        case RequestRefused() if target.provider == "ollama":
            return f"ollama pull {target.name}; `ollama list` says what is there"
        case StreamBroken() if not shown_address(target).rstrip("/").endswith("/v1"):
            return f"the address often ends with /v1: {_address_setting(target)}"
        case ConfigError() if variable := key_of(target):
            return f"export {variable}=…, or name another model: mainstay config set model <provider>/<model>"
        case ProviderError() if "certificate" in error.details:
            return "see that this machine's clock is right and its certificates are; then the address"
        case Unreachable() if is_here(target):
            return f"start what listens there, or: {_address_setting(target)}"
        case Unreachable():
            return f"see that this machine is online, or wants a proxy (HTTPS_PROXY); or: {_address_setting(target)}"
    return f"it was chosen because {target.how}; {_address_setting(target)}, or see `mainstay config show`"


def _address_setting(target: Target) -> str:
    return f"mainstay config set providers.{target.provider}.base_url URL (now {shown_address(target) or 'none'})"


def _too_slow(target: Target) -> str:
    if target.provider == LOCAL:
        return "pull a smaller one (mainstay model list), or end what keeps this machine busy; --wait gives it longer"
    return f"see whether it is busy or still loading at {shown_address(target) or target.spec}; --wait gives it longer"


def _others(target: Target, names: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(target.name, names, n=1)
    there = f"it has {', '.join(names[:5])}" + (", …" if len(names) > 5 else "")
    return f"mainstay config set model {target.provider}/{near[0] if near else 'NAME'}; {there}"


def _nothing_found() -> Finding:
    keys = ", ".join(dict.fromkeys(variable for variable, *_ in KEYS))
    places = ", ".join(f"{one.name} at {one.base_url}" for one in servers(os.environ))
    says = f"none was found: none is configured, none of {keys} is set, and there is no {places}"
    return Finding(
        "Model", "warn", says, "mainstay model pull brings one to this machine; or export ANTHROPIC_API_KEY=…"
    )


# --- addresses, and the clocks of others ---------------------------------------------------------


async def _reached(target: Target) -> list[Finding]:
    name = target.provider
    reached = await reach(target, REACH_S)
    if reached is None:
        says = f"{name} cannot be reached at {shown_address(target) or 'any address: it has none'}"
        return [
            Finding("Provider", "FAIL", says, f"start it, or take providers.{name} out; {_address_setting(target)}")
        ]
    says = f"{name} answers at {shown_address(target)}; no model of it is configured, so none was asked"
    return [Finding("Provider", "ok", says)]


def _skew(reached: Reached | None) -> list[Finding]:
    if reached is None or reached.ahead_s is None:
        return []
    off = abs(reached.ahead_s)
    if off <= SKEW_WARN_S:
        return [Finding("Clock", "ok", f"in step with that of {reached.host}")]
    where = "behind" if reached.ahead_s > 0 else "ahead of"
    says = f"it is {_span(off)} {where} that of {reached.host}; keys, certificates and triggers depend on it"
    return [Finding("Clock", "FAIL" if off > SKEW_FAIL_S else "warn", says, _CLOCK)]


def _span(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if round(seconds / size) >= 2:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
