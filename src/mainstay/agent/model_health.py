"""Health checks of models: sends each configured model a tiny prompt, concurrently.

Only an answer proves that base URL, API key and model name are right. Models that run in a process of ours are loaded
and prompted with `--deep` only, because loading takes long.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import aclosing

import msgspec

from mainstay.agent.model_discovery import DiscoveredModel, configure_provider, find_model, list_local_servers
from mainstay.agent.model_providers import ModelProviders
from mainstay.agent.model_server_probe import (
    ModelCheckTarget,
    ServerProbeResult,
    api_key_advice,
    api_key_variable,
    is_local_server,
    probe_server,
    redact_base_url,
)
from mainstay.config.schema import Config, ModelEntry
from mainstay.core.components import suggest_component
from mainstay.core.errors import (
    ConfigError,
    MainstayError,
    ModelSilent,
    Overloaded,
    ProviderBroken,
    ProviderError,
    RateLimited,
    RequestRefused,
    StreamBroken,
    Unauthorised,
    Unreachable,
)
from mainstay.core.health import CheckFinding
from mainstay.core.messages import Message, Text, Usage
from mainstay.core.outcome_text import format_count, format_dollars
from mainstay.core.ports import Context, Options, Provider, StreamFinished
from mainstay.core.provider_manifest import ProviderCheckContext, ProviderComponent, ProviderFilesContext
from mainstay.core.worker_threads import run_in_thread
from mainstay.providers.registry import complete_settings, list_providers

MODEL_TIMEOUT_S = 60.0
DEEP_TIMEOUT_S = 300.0  # with a model that has to be loaded first
SLOW_S = 15.0
PROBE_TIMEOUT_S = 10.0
SKEW_WARN_S, SKEW_FAIL_S = 60.0, 300.0  # signed requests are refused at about the second
OUTPUT_TOKENS = 16  # the answer is one word; some APIs refuse a smaller limit
TARGETS_MAX = 20
_CLOCK_ADVICE = "set this system's date and time (timedatectl set-ntp true), or those of that server"


class ModelCheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How thoroughly to check models, from the command line."""

    is_offline: bool = False
    is_deep: bool = False
    timeout_s: float = MODEL_TIMEOUT_S

    @property
    def effective_timeout_s(self) -> float:
        return max(self.timeout_s, DEEP_TIMEOUT_S) if self.is_deep else self.timeout_s


async def check_models(config: Config, options: ModelCheckOptions) -> list[CheckFinding]:
    default: DiscoveredModel | None = await run_in_thread(lambda: find_model(config, os.environ))
    targets = _list_targets(config, default)
    lines = [_build_no_model_finding()] if default is None else []
    if options.is_offline:
        return lines + [_check_offline(target) for target in targets]
    checked = await asyncio.gather(*(_check_model(target, options) for target in targets))
    others = await asyncio.gather(
        *(_check_provider(target) for target in _list_providers_without_models(config, targets))
    )
    return [*lines, *(finding for findings in (*checked, *others) for finding in findings)]


def check_provider_files(*, fix: bool) -> Iterator[CheckFinding]:
    """Run the checks of what providers keep on this machine; they block."""
    context = ProviderFilesContext(environ=os.environ, fix=fix)
    for component in list_providers():
        try:
            if (check := component.load_files_check()) is not None:
                yield from check(context)
        except ConfigError as error:
            yield CheckFinding("Model", "warn", str(error), error.fix)


def _list_targets(config: Config, default: DiscoveredModel | None) -> list[ModelCheckTarget]:
    """Return every configured model once; the default one comes first."""
    targets: dict[str, ModelCheckTarget] = {}

    def add(spec: str | None, how: str, base_url: str | None = None, key_variable: str = "") -> None:
        if spec and spec not in targets and len(targets) < TARGETS_MAX:
            targets[spec] = ModelCheckTarget(
                _isolate_model(config, DiscoveredModel(spec, base_url, how, key_variable)), spec, how
            )

    if default is not None:
        add(default.spec, default.reason, default.base_url, default.key_variable)
    for entry in config.models:
        add(entry if isinstance(entry, str) else entry.model, "it is listed in models as a fallback")
    add(config.sessions.memory.compaction.summary_model, "it writes the summaries")
    for name, workspace in config.workspaces.items():
        add(workspace.model, f"the workspace {name} uses it")
    return list(targets.values())


def _isolate_model(config: Config, model: DiscoveredModel) -> Config:
    """Return the configuration with this model only, and without retries."""
    entries = [entry for entry in config.models if isinstance(entry, ModelEntry) and entry.model == model.spec]
    limits = msgspec.structs.replace(config.limits, retries_max=0)
    return msgspec.structs.replace(configure_provider(config, model), model=None, models=tuple(entries), limits=limits)


def _list_providers_without_models(config: Config, targets: list[ModelCheckTarget]) -> Iterator[ModelCheckTarget]:
    """Return configured providers that have no configured model."""
    checked = {target.provider for target in targets}
    for name in config.providers:
        target = ModelCheckTarget(config, f"{name}/", "it is listed in providers")
        if name not in checked and not _runs_in_process(target):
            yield target


def _runs_in_process(target: ModelCheckTarget) -> bool:
    component = target.find_component()
    return component is not None and component.runs_in_process


# --- prompting -----------------------------------------------------------------------------------


async def _check_model(target: ModelCheckTarget, options: ModelCheckOptions) -> list[CheckFinding]:
    component = target.find_component()
    findings: list[CheckFinding] = []
    if component is not None and component.check:
        findings = await run_in_thread(lambda: _run_provider_check(component, target, options))
    if _runs_in_process(target):
        if not options.is_deep or any(finding.verdict == "FAIL" for finding in findings):
            return findings
        return [*findings, await _prompt_model(target, options, None)]
    reached = await probe_server(target, PROBE_TIMEOUT_S)
    return [*findings, await _prompt_model(target, options, reached), *_check_clock_skew(reached)]


def _run_provider_check(
    component: ProviderComponent, target: ModelCheckTarget, options: ModelCheckOptions
) -> list[CheckFinding]:
    """Run the check of the provider's own manifest; blocks."""
    context = ProviderCheckContext(environ=os.environ, is_deep=options.is_deep)
    try:
        settings, check = complete_settings(target.settings, component), component.load_check()
        return list(check(target.name, settings, context)) if check is not None else []
    except ConfigError as error:
        return [CheckFinding("Model", "FAIL", f"{target.spec}: {error}", error.fix or component.install)]
    except Exception as error:  # a bug of a built-in check; for other distributions it is a ComponentBroken
        return [_build_failure_finding(target, component.describe_bug(error), None)]


async def _prompt_model(
    target: ModelCheckTarget, options: ModelCheckOptions, reached: ServerProbeResult | None
) -> CheckFinding:
    began = time.monotonic()
    try:
        provider = _build_provider(target)
        async with asyncio.timeout(options.effective_timeout_s):
            usage = await _send_prompt(provider)
    except TimeoutError:
        message = f"{target.spec} did not answer within {options.effective_timeout_s:g} s"
        return CheckFinding("Model", "FAIL", message, _slowness_advice(target))
    except ProviderBroken as error:
        return _build_failure_finding(target, _describe_bug(target, error.__cause__), reached)
    except MainstayError as error:
        return _build_failure_finding(target, error, reached)
    except Exception as error:  # a bug in the provider's code, which may come with another distribution
        return _build_failure_finding(target, _describe_bug(target, error), reached)
    took_s = time.monotonic() - began
    spending = _format_spending(target, provider, usage)
    message = f"{target.spec} answered in {_format_time(took_s)} ({spending}); {target.reason}"
    if took_s > SLOW_S:
        return CheckFinding("Model", "warn", f"{message}, which is slow", _slowness_advice(target))
    return CheckFinding("Model", "ok", message)


def _build_provider(target: ModelCheckTarget) -> Provider:
    return ModelProviders(target.spec, None, None, target.config).provider_for("")


async def _send_prompt(provider: Provider) -> Usage:
    question = Message(1, "user", (Text("Say ok."),))
    try:
        stream = provider.stream(Context("", [question]), Options(output_tokens_max=OUTPUT_TOKENS))
        async with aclosing(stream) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if isinstance(piece, StreamFinished):
                    return piece.usage
    finally:
        await provider.close()
    return Usage()


def _format_time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.0f} s"


def _format_spending(target: ModelCheckTarget, provider: Provider, usage: Usage) -> str:
    tokens = format_count(usage.prompt + usage.completion, "token")
    if cost := format_dollars(provider.model().cost(usage)):
        return f"{tokens}, {cost}"
    return f"{tokens}, price unknown" if api_key_variable(target) else tokens


def _check_offline(target: ModelCheckTarget) -> CheckFinding:
    """Check, without network, that the provider exists and has an API key."""
    try:
        _build_provider(target)
    except ConfigError as error:
        return _build_failure_finding(target, error, None)
    except Exception as error:  # a bug in the provider's factory
        return _build_failure_finding(target, _describe_bug(target, error), None)
    return CheckFinding("Model", "ok", f"{target.spec}: {target.reason}; not called (--offline)")


def _describe_bug(target: ModelCheckTarget, error: BaseException | None) -> ConfigError:
    component = target.find_component()
    if component is None:
        return ConfigError(f"the provider {target.provider!r} failed: {type(error).__name__}: {error}")
    return component.describe_bug(error)


# --- failures and remedies -----------------------------------------------------------------------


def _build_failure_finding(
    target: ModelCheckTarget, error: MainstayError, reached: ServerProbeResult | None
) -> CheckFinding:
    details = error.details if isinstance(error, ProviderError) else ""
    message = f"{target.spec}: {error}" + (f" ({details})" if details and details not in str(error) else "")
    busy = isinstance(error, RateLimited | Overloaded)
    return CheckFinding("Model", "warn" if busy else "FAIL", message, _suggest_fix(target, error, reached))


def _suggest_fix(target: ModelCheckTarget, error: MainstayError, reached: ServerProbeResult | None) -> str:
    component = target.find_component()
    if isinstance(error, ConfigError) and error.fix:
        return error.fix
    hint = component.model_hint.format(model=target.name) if component is not None else ""
    if hint and _runs_in_process(target):
        return hint
    match error:
        case Unauthorised():
            return f"set a valid API key: {api_key_advice(target)}"
        case RateLimited() | Overloaded():
            return "wait and try again, or add a fallback model to `models`"
        case ModelSilent():
            return _slowness_advice(target)
        case RequestRefused() if reached is not None and reached.models:
            return _suggest_model(target, reached.models)
        case RequestRefused() if hint:
            return hint
        case StreamBroken() if not redact_base_url(target).rstrip("/").endswith("/v1"):
            return f"the base URL often ends with /v1: {_base_url_advice(target)}"
        case ProviderError() if "certificate" in error.details:
            return "check this machine's clock and its CA certificates, then the base URL"
        case Unreachable() if is_local_server(target):
            return f"start the server, or: {_base_url_advice(target)}"
        case Unreachable():
            return f"check that this machine is online, set HTTPS_PROXY if needed, or: {_base_url_advice(target)}"
    return f"it was chosen because {target.reason}; {_base_url_advice(target)}, or see `mainstay config show`"


def _base_url_advice(target: ModelCheckTarget) -> str:
    return f"mainstay config set providers.{target.provider}.base_url URL (now {redact_base_url(target) or 'none'})"


def _slowness_advice(target: ModelCheckTarget) -> str:
    if _runs_in_process(target):
        return "use a smaller model (mainstay model list), or close other programs; --wait SECONDS allows more time"
    where = redact_base_url(target) or target.spec
    return f"check whether {where} is busy or still loading the model; --wait SECONDS allows more time"


def _suggest_model(target: ModelCheckTarget, names: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(target.name, names, n=1)
    available = f"available: {', '.join(names[:5])}" + (", …" if len(names) > 5 else "")
    return f"mainstay config set model {target.provider}/{near[0] if near else 'NAME'}; {available}"


def _build_no_model_finding() -> CheckFinding:
    providers = list(list_providers())
    keys = ", ".join(
        variable for provider in providers if provider.default_model for variable in provider.key_variables
    )
    local = ", ".join(f"{server.name} at {server.base_url}" for server in list_local_servers(os.environ, providers))
    message = f"no model found: none is configured, none of {keys} is set, and nothing answers as {local}"
    return CheckFinding(
        "Model", "warn", message, "mainstay model pull downloads a local one; or export ANTHROPIC_API_KEY=…"
    )


# --- base URLs and clock skew --------------------------------------------------------------------


async def _check_provider(target: ModelCheckTarget) -> list[CheckFinding]:
    name, component = target.provider, target.find_component()
    if component is not None and not (component.base_url or component.url_variable or redact_base_url(target)):
        return [CheckFinding("Provider", "ok", f"{name}: none of its models is configured, so none was called")]
    reached = await probe_server(target, PROBE_TIMEOUT_S)
    if reached is None:
        address = redact_base_url(target)
        unknown = f"there is no provider {name!r}; {suggest_component('provider', name)}; it has no base URL either"
        missing = f"{name} has no base URL" if component is not None else unknown
        message = f"{name} cannot be reached at {address}" if address else missing
        return [
            CheckFinding(
                "Provider", "FAIL", message, f"start it, or remove providers.{name}; {_base_url_advice(target)}"
            )
        ]
    message = f"{name} answers at {redact_base_url(target)}; none of its models is configured, so none was called"
    return [CheckFinding("Provider", "ok", message)]


def _check_clock_skew(reached: ServerProbeResult | None) -> list[CheckFinding]:
    if reached is None or reached.clock_ahead_s is None:
        return []
    off = abs(reached.clock_ahead_s)
    if off <= SKEW_WARN_S:
        return [CheckFinding("Clock", "ok", f"in sync with {reached.host}")]
    where = "behind" if reached.clock_ahead_s > 0 else "ahead of"
    message = f"{_format_span(off)} {where} {reached.host}; API keys, certificates and triggers depend on it"
    return [CheckFinding("Clock", "FAIL" if off > SKEW_FAIL_S else "warn", message, _CLOCK_ADVICE)]


def _format_span(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if round(seconds / size) >= 2:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
