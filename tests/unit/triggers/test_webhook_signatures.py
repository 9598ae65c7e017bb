"""Only requests signed now with the secret are accepted; any change is refused (F42)."""

from __future__ import annotations

import base64
import datetime
import hmac
import shutil
import subprocess

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.core.errors import ConfigError
from mainstay.core.triggers import TriggerTarget, Webhook
from mainstay.io.webhook_signatures import (
    HEADER_CHARS_MAX,
    SIGNATURES_MAX,
    SignatureInvalid,
    SignatureScheme,
    VerifiedWebhookDelivery,
    decode_secret,
    sign_webhook,
    verify_signature,
)

NOW_S = 1_767_225_600
SECRETS: dict[SignatureScheme, str] = {
    "timestamp": "a secret of some length",
    "standard": "whsec_" + base64.b64encode(b"twenty-four bytes of it.").decode(),
    "github": "It's a Secret to Everybody",
}
SCHEMES: list[SignatureScheme] = ["timestamp", "standard", "github"]
BODIES = [b"", b"Hello, World!", b'{"a": "\xc3\xa9", "n": [1, 2.50]}', bytes(range(256))]
Headers = list[tuple[bytes, bytes]]


def hook(scheme: SignatureScheme = "timestamp", secret: str = "", other_secrets: tuple[str, ...] = ()) -> Webhook:
    return Webhook(
        name="ci",
        secret=secret or SECRETS[scheme],
        scheme=scheme,
        target=TriggerTarget(session="s"),
        other_secrets=other_secrets,
    )


def raw(headers: dict[str, str]) -> Headers:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def signed(scheme: SignatureScheme, body: bytes, *, at_s: int = NOW_S, id: str = "msg_1", secret: str = "") -> Headers:
    return raw(sign_webhook(scheme, secret or SECRETS[scheme], body, at_s=at_s, id=id))


def check(scheme: SignatureScheme, headers: Headers, body: bytes, *, now_s: float = NOW_S) -> VerifiedWebhookDelivery:
    return verify_signature(hook(scheme), headers, body, int(now_s * 1000))


def refused(scheme: SignatureScheme, headers: Headers, body: bytes, *, now_s: float = NOW_S) -> str:
    with pytest.raises(SignatureInvalid) as caught:
        check(scheme, headers, body, now_s=now_s)
    return str(caught.value)


# --- what is right -------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("body", BODIES, ids=["empty", "text", "json", "bytes"])
def test_a_signed_body_is_accepted(scheme: SignatureScheme, body: bytes) -> None:
    assert check(scheme, signed(scheme, body), body).nonce


def test_the_example_that_github_published() -> None:
    body = b"Hello, World!"
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert sign_webhook("github", "It's a Secret to Everybody", body) == {"X-Hub-Signature-256": signature}
    assert check("github", raw({"X-Hub-Signature-256": signature}), body).nonce


def test_an_independent_signer_of_standard_webhooks_is_understood_and_understands() -> None:
    webhooks = pytest.importorskip("standardwebhooks", reason="another implementation to compare with")
    secret, body = SECRETS["standard"], '{"type": "user.created", "name": "Zoë"}'
    at = datetime.datetime.now(tz=datetime.UTC)
    theirs = webhooks.Webhook(secret)
    headers = {
        "webhook-id": "msg_x",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": theirs.sign(msg_id="msg_x", timestamp=at, data=body),
    }
    assert check("standard", raw(headers), body.encode(), now_s=at.timestamp()).nonce
    ours = sign_webhook("standard", secret, body.encode(), at_s=int(at.timestamp()), id="msg_x")
    assert ours == headers
    assert theirs.verify(body, ours) == {"type": "user.created", "name": "Zoë"}


def test_openssl_signs_as_we_do() -> None:
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl is not installed")
    body = b'{"a": 1}'
    said = subprocess.run(
        [openssl, "dgst", "-sha256", "-hmac", SECRETS["timestamp"], "-hex"],
        input=f"{NOW_S}.".encode() + body,
        capture_output=True,
        check=True,
        timeout=120,
    )
    made = said.stdout.decode().split()[-1]
    assert sign_webhook("timestamp", SECRETS["timestamp"], body, at_s=NOW_S)["X-Mainstay-Signature"] == f"v1={made}"


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=40, deadline=None)
@given(body=st.binary(max_size=300), at=st.integers(1, 10**11))
def test_any_bytes_at_any_time_are_taken_as_they_were_signed(scheme: SignatureScheme, body: bytes, at: int) -> None:
    assert check(scheme, signed(scheme, body, at_s=at), body, now_s=at).nonce


# --- what is not ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_f42_a_change_of_any_byte_of_the_body_is_refused(scheme: SignatureScheme) -> None:
    body = b'{"amount": 100, "to": "ada"}'
    headers = signed(scheme, body)
    for at in range(len(body)):
        assert refused(scheme, headers, body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        assert refused(scheme, headers, body[:at] + body[at + 1 :])
        assert refused(scheme, headers, body[:at] + b" " + body[at:])
    assert refused(scheme, headers, body + b"\n")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_f42_a_change_of_any_byte_of_a_header_is_refused(scheme: SignatureScheme) -> None:
    """But for what changes nothing: the case of hexadecimal digits, the bits after the end of base64."""
    body = b'{"amount": 100}'
    headers = [one for one in signed(scheme, body) if one[0] not in (b"Idempotency-Key", b"X-GitHub-Delivery")]
    original = check(scheme, headers, body)
    for number, (name, value) in enumerate(headers):
        for at in range(len(value)):
            for byte in {value[at] ^ 1, value[at] ^ 0x20, ord("0"), ord("z"), 0x00, 0xFF, ord(" ")} - {value[at]}:
                changed = [*headers]
                changed[number] = (name, value[:at] + bytes([byte]) + value[at + 1 :])
                try:
                    taken = check(scheme, changed, body)
                except SignatureInvalid:
                    continue
                assert taken == original, (name, at, byte)
                assert b"ignature" in name


@pytest.mark.parametrize("scheme", SCHEMES)
def test_f42_a_header_that_is_missing_empty_twice_or_huge_is_refused(scheme: SignatureScheme) -> None:
    body = b"x"
    headers = [one for one in signed(scheme, body) if one[0] not in (b"Idempotency-Key", b"X-GitHub-Delivery")]
    assert refused(scheme, [], body)
    for number, (name, value) in enumerate(headers):
        others = headers[:number] + headers[number + 1 :]
        assert "there is no" in refused(scheme, others, body)
        assert refused(scheme, [*others, (name, b"")], body)
        assert "2 times" in refused(scheme, [*headers, (name, value)], body)
        assert "2 times" in refused(scheme, [(name.upper(), b"x"), *headers], body)
        assert str(HEADER_CHARS_MAX) in refused(scheme, [*others, (name, value * HEADER_CHARS_MAX)], body)
        assert "ASCII" in refused(scheme, [*others, (name, value + "é".encode())], body)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_names_of_headers_may_be_written_in_any_case_and_order(scheme: SignatureScheme) -> None:
    headers = signed(scheme, b"x")
    plain = check(scheme, headers, b"x")
    assert check(scheme, [(name.upper(), value) for name, value in reversed(headers)], b"x") == plain
    assert check(scheme, [(name.lower(), value) for name, value in headers], b"x") == plain


def test_f42_a_signature_of_another_algorithm_is_refused() -> None:
    key, body = SECRETS["timestamp"].encode(), b"x"
    for algorithm in ("sha1", "md5", "sha512"):
        made = hmac.digest(key, f"{NOW_S}.".encode() + body, algorithm).hex()
        for value in (f"v1={made}", f"v0={made}", f"{algorithm}={made}", made):
            assert refused("timestamp", raw({"X-Mainstay-Timestamp": str(NOW_S), "X-Mainstay-Signature": value}), body)
    good = dict(sign_webhook("timestamp", SECRETS["timestamp"], body, at_s=NOW_S))
    digits = good["X-Mainstay-Signature"].removeprefix("v1=")
    for value in (f"v0={digits}", f"v2={digits}", f"sha256={digits}", digits, f"v1:{digits}", f"V1={digits}"):
        assert "v1" in refused("timestamp", raw(good | {"X-Mainstay-Signature": value}), body)
    old = hmac.digest(SECRETS["github"].encode(), body, "sha1").hex()
    assert refused("github", raw({"X-Hub-Signature": f"sha1={old}"}), body)
    assert refused("github", raw({"X-Hub-Signature-256": f"sha1={old}"}), body)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_f42_a_body_that_was_encoded_again_is_refused(scheme: SignatureScheme) -> None:
    body = b'{"b": 1, "a": "\\u00e9"}'
    headers = signed(scheme, body)
    again = msgspec.json.encode(msgspec.json.decode(body))
    for other in (again, body.replace(b": ", b":"), body.decode().encode("utf-16"), b"\xef\xbb\xbf" + body):
        assert refused(scheme, headers, other)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_signature_of_another_secret_or_for_another_scheme_is_refused(scheme: SignatureScheme) -> None:
    other = "whsec_" + base64.b64encode(b"another secret, as long").decode()
    assert "no signature fits" in refused(scheme, signed(scheme, b"x", secret=other), b"x")
    for another in SCHEMES:
        if another != scheme:
            assert refused(scheme, signed(another, b"x", secret=SECRETS[another]), b"x")


@pytest.mark.parametrize("scheme", ["timestamp", "standard"])
def test_f42_old_or_future_timestamps_are_refused_and_the_window_is_exact(scheme: SignatureScheme) -> None:
    headers = signed(scheme, b"x")
    for late in (0, 1, 299, 300, -1, -300):
        assert check(scheme, headers, b"x", now_s=NOW_S + late).nonce
    assert "301 s ago" in refused(scheme, headers, b"x", now_s=NOW_S + 301)
    assert "301 s ahead" in refused(scheme, headers, b"x", now_s=NOW_S - 301)
    assert refused(scheme, headers, b"x", now_s=NOW_S + 300.001)
    assert refused(scheme, headers, b"x", now_s=NOW_S * 2)


@pytest.mark.parametrize(
    "at", ["", "now", "-1", "+1", "1e9", "0", "1767225600.5", " ", "\uff11" * 10, "9" * 13, "0x10"]
)
def test_an_invalid_time_is_refused_although_it_was_signed(at: str) -> None:
    body = b"x"
    made = hmac.digest(SECRETS["timestamp"].encode(), f"{at}.".encode() + body, "sha256").hex()
    assert refused("timestamp", raw({"X-Mainstay-Timestamp": at, "X-Mainstay-Signature": f"v1={made}"}), body)


def test_an_id_with_a_dot_is_refused_since_it_could_be_read_in_two_ways() -> None:
    headers = sign_webhook("standard", SECRETS["standard"], f"{NOW_S}.evil".encode(), at_s=NOW_S, id="a")
    assert check("standard", raw(headers), f"{NOW_S}.evil".encode()).nonce
    shifted = headers | {"webhook-id": f"a.{NOW_S}"}
    assert "dot" in refused("standard", raw(shifted), b"evil")


# --- several signatures and secrets --------------------------------------------------------------


def test_one_of_several_signatures_is_enough_and_their_number_is_bounded() -> None:
    good = sign_webhook("timestamp", SECRETS["timestamp"], b"x", at_s=NOW_S)
    right, wrong = good["X-Mainstay-Signature"], "v1=" + "0" * 64
    for value in (f"{wrong},{right}", f"{right}, {wrong}", f"v0=abc,{right}", f"v2=zz , {right}"):
        assert check("timestamp", raw(good | {"X-Mainstay-Signature": value}), b"x").nonce
    most = ",".join([wrong] * (SIGNATURES_MAX - 1) + [right])
    assert check("timestamp", raw(good | {"X-Mainstay-Signature": most}), b"x").nonce
    over = ",".join(["v9=0"] * SIGNATURES_MAX + [right])
    assert f"over {SIGNATURES_MAX}" in refused("timestamp", raw(good | {"X-Mainstay-Signature": over}), b"x")
    mixed = f"v1=zz,{right}"
    assert "hexadecimal" in refused("timestamp", raw(good | {"X-Mainstay-Signature": mixed}), b"x")


def test_standard_signatures_are_separated_by_spaces_and_unknown_versions_are_skipped() -> None:
    good = sign_webhook("standard", SECRETS["standard"], b"x", at_s=NOW_S, id="m")
    right = good["webhook-signature"]
    for value in (f"v1a,{'A' * 86}== {right}", f"v1,{'A' * 43}= {right}", f"  {right}  "):
        assert check("standard", raw(good | {"webhook-signature": value}), b"x").nonce
    assert refused("standard", raw(good | {"webhook-signature": right.replace("v1,", "v1a,")}), b"x")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_while_a_secret_is_being_changed_both_are_taken_and_the_nonce_is_the_same(scheme: SignatureScheme) -> None:
    new = "whsec_" + base64.b64encode(b"the new one, long enough").decode()
    changing = hook(scheme, secret=new, other_secrets=(SECRETS[scheme],))
    nonces = {
        verify_signature(changing, signed(scheme, b"x", secret=secret), b"x", NOW_S * 1000).nonce
        for secret in (new, SECRETS[scheme])
    }
    assert len(nonces) == 1  # or an attacker with both signatures could have it accepted twice
    with pytest.raises(SignatureInvalid):
        verify_signature(hook(scheme, secret=new), signed(scheme, b"x"), b"x", NOW_S * 1000)


# --- the nonce -----------------------------------------------------------------------------------


def test_f42_the_nonce_follows_what_is_signed_and_nothing_else() -> None:
    body = b'{"a": 1}'
    headers = signed("timestamp", body)
    nonce = check("timestamp", headers, body).nonce
    assert check("timestamp", [*headers[:2], (b"Idempotency-Key", b"another")], body).nonce == nonce
    shouted = [(name, value.upper().replace(b"V1=", b"v1=")) for name, value in headers]
    assert check("timestamp", shouted, body).nonce == nonce
    assert check("timestamp", signed("timestamp", body, at_s=NOW_S + 1), body).nonce != nonce
    assert check("timestamp", signed("timestamp", b"{}"), b"{}").nonce != nonce


def test_f42_of_standard_webhooks_the_signed_id_is_the_nonce_so_that_an_attempt_later_is_a_repeat() -> None:
    first = check("standard", signed("standard", b"x"), b"x")
    assert check("standard", signed("standard", b"x", at_s=NOW_S + 60), b"x") == first
    assert check("standard", signed("standard", b"x", id="msg_2"), b"x") != first


def test_f42_github_signs_no_id_so_the_same_bytes_are_the_same_delivery_under_any_id() -> None:
    first = check("github", signed("github", b"x", id="one"), b"x")
    assert check("github", signed("github", b"x", id="two"), b"x", now_s=NOW_S * 2) == first
    assert check("github", signed("github", b"y", id="one"), b"y") != first


# --- the same work for every error ----------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_f42_every_problem_makes_the_same_comparisons(scheme: SignatureScheme, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    good = signed(scheme, b"x")
    signature = next(number for number, (name, _) in enumerate(good) if b"ignature" in name)
    cases: list[tuple[Headers, bytes, float]] = [
        (good, b"x", NOW_S),
        (good, b"y", NOW_S),
        (good, b"x", NOW_S + 10_000),
        ([], b"x", NOW_S),
        (good[:signature] + good[signature + 1 :], b"x", NOW_S),
        ([*good, good[signature]], b"x", NOW_S),
    ]
    for value in (b"", b"v1=", b"sha1=00", b"\xff", b"v1,zz", b"x" * 5000, b"v1=" + b"0" * 64):
        changed = [*good]
        changed[signature] = (good[signature][0], value)
        cases.append((changed, b"x", NOW_S))
    work = []
    for headers, body, now_s in cases:
        compared.clear()
        try:
            verify_signature(hook(scheme, other_secrets=(SECRETS[scheme] + "AAAA",)), headers, body, int(now_s * 1000))
        except SignatureInvalid:
            pass
        work.append(list(compared))
    assert work == [[(32, 32)] * (2 * SIGNATURES_MAX)] * len(cases)


def test_a_signature_of_zeros_does_not_match_a_missing_one() -> None:
    """What is compared where there is no signature is never what was sent."""
    assert refused("github", raw({"X-Hub-Signature-256": "sha256=" + "0" * 64}), b"")
    assert refused("github", [], b"")


# --- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "secret", "why"),
    [
        ("timestamp", "", "no secret"),
        ("timestamp", "short", "5 bytes"),
        ("timestamp", "x" * 15, "15 bytes"),
        ("timestamp", "a long enough secret\n", "new line"),
        ("github", " a long enough secret", "space"),
        ("standard", "whsec_", "no secret"),
        ("standard", "whsec_" + base64.b64encode(b"short").decode(), "5 bytes"),
        ("standard", "whsec_not base64 at all, but long", "base64"),
        ("standard", "é" * 20, "base64"),
    ],
)
def test_f42_a_guessable_secret_is_refused_and_not_repeated(scheme: SignatureScheme, secret: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_secret(scheme, secret)
    assert why in str(caught.value)
    assert not secret.strip() or secret.strip() not in str(caught.value).replace("whsec_ followed by base64", "")


def test_a_secret_of_bytes_that_are_no_text_is_taken_as_the_environment_has_it() -> None:
    assert decode_secret("timestamp", b"sixteen bytes \xff\xfe".decode(errors="surrogateescape"))[-2:] == b"\xff\xfe"
    assert len(decode_secret("standard", base64.b64encode(b"x" * 16).decode())) == 16  # the prefix may be left out
