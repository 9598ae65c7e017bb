"""PII detection: mail and IP addresses, phone numbers, payment cards, bank accounts, national identifiers."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from functools import cache

from mainstay.guards.redaction_pattern_compiler import DIGIT, MatchCheck, RedactionPattern, build_pattern, one_of

_LOCAL = r"[A-Za-z0-9._%+-]"
_VERSION = re.compile(r"(?i)(?:version|release|v|ver\.|==|>=|<=|~=|@|#)\s{0,3}\Z")
_CONTINUED_NUMBER = re.compile(r"[0-9][ .-]?\Z")  # the digits continue a longer number
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

# Length of an IBAN, by country.
_IBAN_CHARS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI NL", 19: "SI MK", 20: "AT EE LT LU XK KZ BA", 21: "CH HR LI LV",
        22: "BG DE GB IE GE ME RS BH", 23: "AE IL GI", 24: "CZ ES SE SK RO SA MD PK TN AD", 25: "PT", 26: "IS TR",
        27: "FR GR IT MC SM", 28: "HU PL CY AL DO GT LB AZ", 29: "BR PS QA UA", 30: "KW JO MU", 31: "MT",
    }.items()
    for country in countries.split()
}  # fmt: skip


def _digits(text: str) -> str:
    return "".join(c for c in text if c in "0123456789")


def is_card(text: str, _: str = "") -> bool:
    """Check the Luhn sum, the length and the first digits of a payment card number."""
    digits = _digits(text)
    is_issued = digits[0] in "3456" or "2221" <= digits[:4] <= "2720"  # Mastercard has both
    if not 13 <= len(digits) <= 19 or not is_issued or len(set(digits)) < 2:
        return False
    doubled = (sum(divmod(int(d) * 2, 10)) if i % 2 else int(d) for i, d in enumerate(reversed(digits)))
    return sum(doubled) % 10 == 0


def _is_phone(text: str, before: str = "") -> bool:
    digits = _digits(text)
    return (
        9 <= len(digits) <= 15
        and len(set(digits)) > 2
        and not _VERSION.search(before)
        and not _CONTINUED_NUMBER.search(before)
    )


def _is_phone_by_context(text: str, before: str = "") -> bool:
    """Check a number without a leading plus or zero: a word such as `phone` must announce it."""
    return _PHONE_WORD.search(before) is not None and 7 <= len(_digits(text)) <= 12 and len(set(_digits(text))) > 2


_PHONE_WORD = re.compile(
    r"(?i)\b(?:phones?|tel|telephone|telefon\w*|t[e\u00e9]l\w*|mobile?|m[o\u00f3]vil|cell(?:phone)?|handy|fax|call|dial|ring|sms"
    r"|text|whatsapp|contact|number|nr|no)\b[ .:#]{0,4}(?:\w+ ){0,2}(?:is |at |on |me |to |us )?[ :#(+]{0,3}\Z"
)


def _is_ssn(text: str, before: str = "") -> bool:
    digits = _digits(text)
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    if "-" not in text and not _SSN_WORD.search(before):
        return False  # with other separators, it is a number like any other
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


_SSN_WORD = re.compile(r"(?i)(?:\bssn|social security)\b\W{0,3}(?:\w+\W{1,3}){0,3}\Z")


def _is_national_insurance_number(text: str, _: str = "") -> bool:
    return text[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ") and text[1] != "O"


def _is_public_ip_address(text: str, before: str = "") -> bool:
    if _VERSION.search(before):
        return False
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast


def _is_bitcoin(text: str, _: str = "") -> bool:
    """Check the four-byte checksum of a Base58 address."""
    number = 0
    for character in text:
        number = number * 58 + _BASE58.index(character)
    data = number.to_bytes(25, "big") if number < 1 << 200 else b"\0" * 25
    return hashlib.sha256(hashlib.sha256(data[:21]).digest()).digest()[:4] == data[21:] and any(data[1:21])


_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}+)"
_EMAIL = RedactionPattern(
    "e-mail address",
    rf"()({_LOCAL}{{1,64}}+@(?:{_LABEL}\.){{1,6}}[A-Za-z]{{2,24}})(?![A-Za-z0-9])",
    rf"{_LOCAL}{{0,64}}+(?:\Z|@[A-Za-z0-9.-]{{0,460}}+\Z)",
)


class _IbanPattern(RedactionPattern):
    """An IBAN: its length depends on the country, and groups may be separated by one space."""

    __slots__ = ()

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        span = super().find(text, start)
        length = _IBAN_CHARS.get(text[start : start + 2])
        if span is None or length is None:
            return None
        end, count = start, 0
        while count < length:
            if end >= span[1]:
                return None
            count += text[end] != " "
            end += 1
        bare = text[start:end].replace(" ", "")
        number = int("".join(str(int(c, 36)) for c in bare[4:] + bare[:4]))
        if number % 97 != 1 or text[end : end + 1].isalnum():
            return None
        return start, end


_IBAN = _IbanPattern(
    "bank account",
    r"()([A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,27}+)",
    r"[A-Z]{0,2}+\Z|[A-Z]{2}[0-9]{0,2}+\Z|[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){0,28}+ ?\Z",
)


_CARD_GAP = ("[ ._/\u00a0\u2009\u202f\u2010-\u2014-]", 0, 2)
_GAP = " .()/\u00a0\u2009\u202f\u2010-\u2014-"  # between the groups of a phone number
_SSN_GAP = ("[ .\u00a0\u2010-\u2013-]", 0, 1)


def _build_phone_pattern(sign: str, area: str, gap: str, group: str, check: MatchCheck = _is_phone) -> RedactionPattern:
    """Build the pattern for groups of digits with gaps between them, after a sign such as a plus or a zero."""
    return RedactionPattern(
        "phone number",
        rf"()({sign}{area}+(?:{gap}+{group}+){{1,6}}+)(?![A-Za-z0-9])",
        rf"{sign}(?:\Z|[0-9]{{1,4}}+(?:{gap}+{group}+){{0,6}}+[{_GAP}]{{0,2}}+[0-9]?+\Z)",
        check,
    )


PII_PATTERNS: tuple[RedactionPattern, ...] = (
    _EMAIL,
    _IBAN,
    build_pattern(
        "card number",
        *((DIGIT, 4, 4), _CARD_GAP, (DIGIT, 4, 4), _CARD_GAP, (DIGIT, 4, 4), _CARD_GAP, (DIGIT, 1, 7)),
        check=is_card,
    ),
    build_pattern("card number", (DIGIT, 4, 4), _CARD_GAP, (DIGIT, 6, 6), _CARD_GAP, (DIGIT, 4, 5), check=is_card),
    build_pattern(
        "social security number", (DIGIT, 3, 3), _SSN_GAP, (DIGIT, 2, 2), _SSN_GAP, (DIGIT, 4, 4), check=_is_ssn
    ),
    build_pattern(
        "national insurance number",
        ("[A-CEGHJ-PR-TW-Z]", 2, 2),
        *(e for _ in range(3) for e in ((" ", 0, 1), (DIGIT, 2, 2))),
        (" ", 0, 1),
        ("[A-D]", 1, 1),
        check=_is_national_insurance_number,
    ),
    _build_phone_pattern(r"\+", r"[0-9]{1,4}", rf"[{_GAP}]{{0,2}}", r"[0-9]{1,4}"),
    _build_phone_pattern(r"\(0", r"[0-9]{1,3}", rf"[{_GAP}]{{1,2}}", r"[0-9]{2,8}"),
    _build_phone_pattern(r"\(", r"[1-9][0-9]{1,2}", rf"[{_GAP}]{{1,2}}", r"[0-9]{2,8}"),
    build_pattern(
        "phone number",
        *(("[(]", 0, 1), (DIGIT, 3, 3), (f"[{_GAP}]", 1, 2), (DIGIT, 3, 3), (f"[{_GAP}]", 1, 1), (DIGIT, 4, 4)),
        check=_is_phone,
    ),
    build_pattern(  # with the prefix of long-distance calls, 1-800-555-0100 and 8 (912) 345-67-89
        "phone number",
        *(one_of("18"), (f"[{_GAP}]", 1, 2), (DIGIT, 3, 3), (f"[{_GAP}]", 1, 2), (DIGIT, 3, 3)),
        *((f"[{_GAP}]", 1, 1), (DIGIT, 2, 2), (f"[{_GAP}]", 0, 1), (DIGIT, 2, 2)),
        check=_is_phone,
    ),
    _build_phone_pattern("00?", r"[1-9][0-9]{0,3}", rf"[{_GAP}]{{1,2}}", r"[0-9]{2,8}"),
    _build_phone_pattern("", r"[1-9][0-9]{1,4}", rf"[{_GAP}]{{0,2}}", r"[0-9]{2,5}", _is_phone_by_context),
    build_pattern(
        "ip address", (DIGIT, 1, 3), *(e for _ in range(3) for e in (".", (DIGIT, 1, 3))), check=_is_public_ip_address
    ),
    build_pattern("ip address", ("[0-9a-fA-F]", 1, 4), ":", ("[0-9a-fA-F:]", 2, 40), check=_is_public_ip_address),
    build_pattern("bitcoin address", ("[13]", 1, 1), (f"[{_BASE58}]", 25, 34), check=_is_bitcoin),
    build_pattern("bitcoin address", "bc1", ("[a-z0-9]", 38, 60)),
    build_pattern("ethereum address", "0x", ("[0-9a-fA-F]", 40, 40)),
)


# The last word of a text may be the beginning of a mail address, so it is held until it ends.
@cache
def start_pattern() -> re.Pattern[str]:
    begins = rf"{_LOCAL}{{1,64}}+(?:@|\Z)|[+(]?[0-9]|[+(]\Z|[A-Z]{{2}}[ 0-9]|bc1|[a-fA-F0-9]{{1,4}}:"
    return re.compile(rf"(?<![A-Za-z0-9._%+-])(?:{begins})")


def patterns_at(text: str, start: int) -> tuple[RedactionPattern, ...]:
    return PII_PATTERNS


def may_contain_pii(text: str) -> bool:
    return "@" in text or _PII_HINT.search(text) is not None


_PII_HINT = re.compile("[0-9]|[a-fA-F]:")
