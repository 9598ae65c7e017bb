"""Maps signal-cli errors to ChannelErrors that say whether the message was sent."""

from __future__ import annotations

from typing import Any

from mainstay.channels.signal.client import SignalNotConnected, SignalRequestRefused, SignalResponseLost
from mainstay.core.channels import ChannelError, DeliveryDeferred, DeliveryRejected, DeliveryUnknown

USER_ERROR_CODE = -1
UNTRUSTED_KEY_CODE = -4
RATE_LIMIT_CODE = -5
CAPTCHA_CODE = -6
INVALID_REQUEST_CODES = (-32600, -32601, -32602)


def to_channel_error(error: SignalRequestRefused | SignalResponseLost | SignalNotConnected) -> ChannelError:
    match error:
        case SignalNotConnected():
            return DeliveryDeferred(str(error))
        case SignalResponseLost():
            return DeliveryUnknown("It is unknown whether signal-cli sent it: there was no answer.")
        case SignalRequestRefused(code=code) if code in (
            RATE_LIMIT_CODE,
            CAPTCHA_CODE,
        ) or "RATE_LIMIT_FAILURE" in _result_types(error.data):
            return DeliveryDeferred("Signal's rate limit was reached.", retry_after_s=_parse_retry_after_s(error.data))
        case SignalRequestRefused(code=code) if code in INVALID_REQUEST_CODES and "account" in str(error):
            # It may be registered again.
            return DeliveryDeferred("signal-cli does not have this account.")
        case SignalRequestRefused(code=code) if code == UNTRUSTED_KEY_CODE:
            return DeliveryRejected(
                "The recipient's safety number has changed: it must be trusted first (signal-cli trust)."
            )
        case SignalRequestRefused(code=code) if code == USER_ERROR_CODE and "NETWORK_FAILURE" in _result_types(
            error.data
        ):
            return DeliveryUnknown("Signal could not be reached, or not in time.")
        case SignalRequestRefused(code=code) if code == USER_ERROR_CODE or code in INVALID_REQUEST_CODES:
            return DeliveryRejected(f"Signal refused it: {str(error).rstrip('.')}.")
        case _:  # signal-cli failed while sending
            return DeliveryUnknown("It is unknown whether it was sent: signal-cli failed.")


def _recipient_results(data: Any) -> list[dict[str, Any]]:
    """Return the results per recipient."""
    response = data.get("response") if isinstance(data, dict) else None
    results = response.get("results") if isinstance(response, dict) else None
    return [result for result in results if isinstance(result, dict)] if isinstance(results, list) else []


def _result_types(data: Any) -> set[str]:
    return {str(result.get("type")) for result in _recipient_results(data)}


def _parse_retry_after_s(data: Any) -> float | None:
    waits = [wait.get("retryAfterSeconds") for wait in _recipient_results(data)]
    return max((float(wait) for wait in waits if type(wait) is int and 0 <= wait < 10**7), default=None)
