"""What it means that signal-cli did not do something."""

from __future__ import annotations

from typing import Any

from mainstay.channels.signal.rpc import Lost, NotConnected, Refused
from mainstay.core.channels import ChannelError, MaybeSent, NeverSent, NotSent

USER_ERROR = -1
UNTRUSTED_KEY = -4
RATE_LIMIT = -5
CAPTCHA = -6
INVALID = (-32600, -32601, -32602)


def trouble_of(error: Refused | Lost | NotConnected) -> ChannelError:
    match error:
        case NotConnected():
            return NotSent(str(error))
        case Lost():
            return MaybeSent("Whether signal-cli has sent it is unknown: there was no answer.")
        case Refused(code=code) if code in (RATE_LIMIT, CAPTCHA) or "RATE_LIMIT_FAILURE" in _kinds(error.data):
            return NotSent("Signal says that this is too soon.", retry_after_s=_wait(error.data))
        case Refused(code=code) if code in INVALID and "account" in str(error):  # it may be registered again
            return NotSent("signal-cli does not have our account.")
        case Refused(code=code) if code == UNTRUSTED_KEY:
            return NeverSent("Their safety number has changed: it must be trusted first (signal-cli trust).")
        case Refused(code=code) if code == USER_ERROR and "NETWORK_FAILURE" in _kinds(error.data):
            return MaybeSent("Signal could not be reached, or not in time.")
        case Refused(code=code) if code == USER_ERROR or code in INVALID:
            return NeverSent(f"Signal does not take it: {str(error).rstrip('.')}.")
        case _:  # it failed on the way
            return MaybeSent("Whether it was sent is unknown: signal-cli has failed.")


def _results(data: Any) -> list[dict[str, Any]]:
    """What became of it for each of whom it was sent to."""
    response = data.get("response") if isinstance(data, dict) else None
    results = response.get("results") if isinstance(response, dict) else None
    return [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []


def _kinds(data: Any) -> set[str]:
    return {str(one.get("type")) for one in _results(data)}


def _wait(data: Any) -> float | None:
    waits = [one.get("retryAfterSeconds") for one in _results(data)]
    return max((float(one) for one in waits if type(one) is int and 0 <= one < 10**7), default=None)
