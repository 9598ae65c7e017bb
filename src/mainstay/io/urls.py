"""Parses URLs strictly and tells public IP addresses from private ones (protection against SSRF).

`ipaddress.is_global` lets through ways into the private network (addresses that embed another address, multicast,
unassigned ranges), and resolvers accept hosts that do not look like the IP addresses they are. So a host must be a
plain name or an IP address in canonical form, and an address is public only if it is in a public network and in none of
the special networks inside of it.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from typing import Literal
from urllib.parse import quote, urljoin

import msgspec

from mainstay.core.errors import MainstayError

URL_CHARS_MAX = 2048
HOST_CHARS_MAX = 253
DEFAULT_PORTS = {"http": 80, "https": 443}

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(MainstayError):
    """A URL or IP address that must not be fetched. Nothing was sent."""


# outside of it: local, multicast, or addresses that embed another
_PUBLIC_NETWORK_6 = ipaddress.IPv6Network("2000::/3")

_SPECIAL_NETWORKS_4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        "168.63.129.16/32",  # Azure's platform services, at an address that looks public
        *("224.0.0.0/4", "240.0.0.0/4"),
    )
)
_SPECIAL_NETWORKS_6 = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, among them Teredo, which embeds an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4, which embeds one too
        "2620:4f:8000::/48",
        "3ffe::/16",
        "3fff::/20",
    )
)

# Ports below 1024 other than 80 and 443 are refused too; these belong to services that could misread an HTTP request.
_BLOCKED_PORTS = frozenset({1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6697, 10080, 11211})
_BLOCKED_PORTS |= frozenset(range(6665, 6670))

_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE | re.DOTALL)
_HOST_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTTED_QUAD = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
# IDNA 2003 and 2008 map these differently, to two different names
_IDNA_DEVIATIONS = frozenset("\u00df\u03c2\u200c\u200d")


class ParsedUrl(msgspec.Struct, frozen=True):
    """A parsed http or https URL. The host is a lower-case ASCII name, or an IP address in canonical form."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str  # path and query, percent-encoded: the request target

    @property
    def is_ip_address(self) -> bool:
        return self.is_ipv6 or _DOTTED_QUAD.fullmatch(self.host) is not None

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if self.is_ipv6 else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(url: str) -> ParsedUrl:
    """Parse an http or https URL. Raises AddressRefused with a sentence that says what is wrong."""
    url = url.strip(" \t\r\n")
    if len(url) > URL_CHARS_MAX:
        raise AddressRefused(f"The address is longer than {URL_CHARS_MAX} characters.")
    if any(char <= " " or char in "\\\x7f" or unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in url):
        raise AddressRefused("The address contains spaces, backslashes or invisible characters.")
    match = _URL.fullmatch(url)
    if match is None:
        raise AddressRefused("Only addresses that begin with http:// or https:// can be fetched.")
    scheme: Literal["http", "https"] = "https" if match[1].lower() == "https" else "http"
    if "@" in match[2]:
        raise AddressRefused("An address with a user name or password in it is not fetched.")
    host, port = _parse_authority(match[2], scheme)
    path = quote(match[3] or "/", safe="/:@!$&'()*+,;=~-._%[]|^")
    query = quote(match[4] or "", safe="/:@!$&'()*+,;=~-._%[]|^?{}`")
    return ParsedUrl(scheme, host, port, path + query)


def resolve_redirect(base: ParsedUrl, location: str) -> ParsedUrl:
    """Resolve a Location header against the URL that sent it. A redirect from https to http is refused."""
    if any(char in location for char in "\t\r\n\\"):  # urljoin drops some of these and would join a different URL
        raise AddressRefused("It redirects to an address with spaces, backslashes or invisible characters.")
    try:
        joined = urljoin(base.url, location.strip(" "))
    except ValueError:
        raise AddressRefused("It redirects to something that is not a valid address.") from None
    try:
        target = parse_url(joined)
    except AddressRefused as error:
        raise AddressRefused(f"It redirects to an address that is not fetched: {error}") from None
    if base.scheme == "https" and target.scheme == "http":
        raise AddressRefused(f"It redirects from https to http ({target.host}), which is not followed.")
    return target


def _parse_authority(authority: str, scheme: str) -> tuple[str, int]:
    if authority.startswith("["):
        inner, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise AddressRefused("The host of this address is not valid.")
        return _parse_ipv6(inner), _parse_port(rest[1:], scheme)
    host, _, port = authority.partition(":")
    return _parse_host(host), _parse_port(port, scheme)


def _parse_port(text: str, scheme: str) -> int:
    if not text:
        return DEFAULT_PORTS[scheme]
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) <= 65535):
        raise AddressRefused("The port of this address is not a number from 1 to 65535.")
    return int(text)


def _parse_ipv6(text: str) -> str:
    if "%" in text:
        raise AddressRefused("An address with a zone (%) belongs to this machine's own network.")
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise AddressRefused("The host of this address is not valid.") from None


def _parse_host(text: str) -> str:
    """Return the host in the form given to the resolver. Refuses ambiguous names and non-canonical IP addresses."""
    if not text or len(text) > HOST_CHARS_MAX or "%" in text:
        raise AddressRefused("The host of this address is not valid.")
    if _IDNA_DEVIATIONS.intersection(text):
        raise AddressRefused("This host's name can be read in two ways: write it in its xn-- form.")
    try:
        host = text.lower() if text.isascii() else text.encode("idna").decode().lower()
    except UnicodeError:
        raise AddressRefused("The host of this address is not valid.") from None
    host = host.removesuffix(".")
    labels = host.split(".")
    if len(host) > HOST_CHARS_MAX or not all(_HOST_LABEL.fullmatch(label) for label in labels):
        raise AddressRefused("The host of this address is not valid.")
    if _NUMERIC_LABEL.fullmatch(labels[-1]):  # resolvers read such a host as an IP address
        if not _DOTTED_QUAD.fullmatch(host) or any(int(label) > 255 for label in labels):
            raise AddressRefused("A numeric host must be written as four decimal numbers, such as 93.184.216.34.")
        if not text.isascii():
            raise AddressRefused("A numeric host must be written in plain digits.")
    return host


# --- networks ------------------------------------------------------------------------------------


def is_public(address: str) -> bool:
    """Return whether the text is a public IP address; False for anything else, malformed text included."""
    if "%" in address:
        return False
    try:
        parsed: IpAddress = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return not any(parsed in network for network in _SPECIAL_NETWORKS_4)
    return parsed in _PUBLIC_NETWORK_6 and not any(parsed in network for network in _SPECIAL_NETWORKS_6)


def is_web_port(port: int) -> bool:
    return port in (80, 443) or (port >= 1024 and port not in _BLOCKED_PORTS)
