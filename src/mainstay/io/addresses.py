"""Which addresses may be reached from here: web addresses read strictly, and a table of networks that are the world's.

The standard library's idea of a global address lets through ways into the private network (addresses that carry
another one inside, groups, whatever was never assigned), and a resolver takes hosts that do not look like the addresses
they are. So a host is a plain name or an address in its usual form, and an address is good only if it is in the world's
networks and in none of those that were taken out of them.
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
PORTS = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(MainstayError):
    """This is no address to be fetched; nothing was sent."""


_WORLD_6 = ipaddress.IPv6Network("2000::/3")  # what lies beside it is local, a group, or carries another address

_TAKEN_4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        "168.63.129.16/32",  # a cloud's own services, at an address that looks like anybody's
        *("224.0.0.0/4", "240.0.0.0/4"),
    )
)
_TAKEN_6 = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # protocols, among them Teredo, which carries an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4, which does too
        "2620:4f:8000::/48",
        "3ffe::/16",
        "3fff::/20",
    )
)

# Below 1024 lives what is no web server; these are the others that a request could be mistaken by.
_ODD_PORTS = frozenset({1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6697, 10080, 11211})
_ODD_PORTS |= frozenset(range(6665, 6670))

_SHAPE = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_QUAD = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
_DEVIATING = frozenset("\u00df\u03c2\u200c\u200d")  # two standards read a name with one of these as two different names


class Place(msgspec.Struct, frozen=True):
    """A web address, taken apart. The host is a lower-case ASCII name, or an address in its usual form."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str  # path and query, as a request has them

    @property
    def literal(self) -> bool:
        return self.bracketed or _QUAD.fullmatch(self.host) is not None

    @property
    def bracketed(self) -> bool:
        return ":" in self.host

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if self.bracketed else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def place_of(url: str) -> Place:
    """Raises AddressRefused, with a sentence that says what is wrong with it."""
    url = url.strip(" \t\r\n")
    if len(url) > URL_CHARS_MAX:
        raise AddressRefused(f"The address is longer than {URL_CHARS_MAX} characters.")
    if any(char <= " " or char in "\\\x7f" or unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in url):
        raise AddressRefused("The address holds spaces, backslashes or invisible characters.")
    found = _SHAPE.fullmatch(url)
    if found is None:
        raise AddressRefused("Only addresses that begin with http:// or https:// can be fetched.")
    scheme: Literal["http", "https"] = "https" if found[1].lower() == "https" else "http"
    if "@" in found[2]:
        raise AddressRefused("An address with a user name or password in it is not fetched.")
    host, port = _host_and_port(found[2], scheme)
    path = quote(found[3] or "/", safe="/:@!$&'()*+,;=~-._%[]|^")
    query = quote(found[4] or "", safe="/:@!$&'()*+,;=~-._%[]|^?{}`")
    return Place(scheme, host, port, path + query)


def follow(place: Place, location: str) -> Place:
    """Where a redirect leads. From an encrypted page it leads to encrypted ones only."""
    if any(char in location for char in "\t\r\n\\"):  # joining would drop some of these, and join something else
        raise AddressRefused("It redirects to an address with spaces, backslashes or invisible characters.")
    try:
        joined = urljoin(place.url, location.strip(" "))
    except ValueError:
        raise AddressRefused("It redirects to something that is no address.") from None
    try:
        target = place_of(joined)
    except AddressRefused as error:
        raise AddressRefused(f"It redirects to an address that is not fetched: {error}") from None
    if place.scheme == "https" and target.scheme == "http":
        raise AddressRefused(f"It redirects from https to http ({target.host}), which is not followed.")
    return target


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    if authority.startswith("["):
        inner, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise AddressRefused("The host of this address cannot be read.")
        return _six(inner), _port(rest[1:], scheme)
    host, _, port = authority.partition(":")
    return _name(host), _port(port, scheme)


def _port(text: str, scheme: str) -> int:
    if not text:
        return PORTS[scheme]
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) <= 65535):
        raise AddressRefused("The port of this address is no number from 1 to 65535.")
    return int(text)


def _six(text: str) -> str:
    if "%" in text:
        raise AddressRefused("An address with a zone (%) belongs to this machine's own network.")
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise AddressRefused("The host of this address cannot be read.") from None


def _name(text: str) -> str:
    """The host as a resolver is asked for it. What only looks like a name, or only unlike an address, is refused."""
    if not text or len(text) > HOST_CHARS_MAX or "%" in text:
        raise AddressRefused("The host of this address cannot be read.")
    if _DEVIATING.intersection(text):
        raise AddressRefused("This host's name can be read in two ways: write it in its xn-- form.")
    try:
        host = text.lower() if text.isascii() else text.encode("idna").decode().lower()
    except UnicodeError:
        raise AddressRefused("The host of this address cannot be read.") from None
    host = host.removesuffix(".")
    labels = host.split(".")
    if len(host) > HOST_CHARS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise AddressRefused("The host of this address cannot be read.")
    if _NUMBER.fullmatch(labels[-1]):  # to a resolver this is an address, in whatever form
        if not _QUAD.fullmatch(host) or any(int(label) > 255 for label in labels):
            raise AddressRefused("A numeric host must be written as four decimal numbers, such as 93.184.216.34.")
        if not text.isascii():
            raise AddressRefused("A numeric host must be written in plain digits.")
    return host


# --- networks ------------------------------------------------------------------------------------


def is_public(address: str) -> bool:
    """True for an address of the world's, given as text; False for anything else, garbage too."""
    if "%" in address:
        return False
    try:
        parsed: Address = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return not any(parsed in network for network in _TAKEN_4)
    return parsed in _WORLD_6 and not any(parsed in network for network in _TAKEN_6)


def is_web_port(port: int) -> bool:
    return port in (80, 443) or (port >= 1024 and port not in _ODD_PORTS)
