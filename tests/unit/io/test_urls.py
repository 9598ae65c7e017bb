"""F39: which addresses may be fetched from. Each row is one attack."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.io.urls import URL_CHARS_MAX, AddressRefused, is_public, is_web_port, parse_url, resolve_redirect

PRIVATE = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.254
169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.8 192.0.0.170 192.0.2.1
192.88.99.1 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 168.63.129.16
224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
:: ::1 ::2 ::7f00:1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1
64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::8.8.8.8 64:ff9b:1::1 100::1 1::1 5f00::1 4000::1
2001::1 2001:0:7f00:1:: 2001:2::1 2001:10::1 2001:20::1 2001:1ff:ffff::1 2001:db8::1
2002:7f00:1:: 2002:a9fe:a9fe:: 2002:808:808:: 3ffe::1 3fff::1 3fff:fff:ffff::1
fc00::1 fd00:ec2::254 fdff::1 fe80::1 fe80::1%lo fe80::a9fe:a9fe fec0::1 feff::1 ff00::1 ff02::1 ff0e::1
8.8.8.8%eth0 2606:4700::1%1 localhost 127.1 2130706433 0x7f.1 01.2.3.4 1.2.3 1.2.3.4.5 [::1] [2606:4700::1] ..
"""

PUBLIC = """
1.1.1.1 8.8.8.8 9.9.9.9 93.184.216.34 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 169.253.255.255
172.15.255.255 172.32.0.1 191.255.255.255 192.0.1.1 192.167.255.255 198.17.255.255 198.20.0.1 203.0.112.1
223.255.255.255 2001:200::1 2001:4860:4860::8888 2003::1 2400:cb00::1 2606:4700:4700::1111 2a00:1450:4001::1 3ffd::1
"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_f39_no_address_of_a_private_or_special_network_is_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_f39_an_internet_address_is_public(address: str) -> None:
    assert is_public(address)


@given(st.integers(0, 2**32 - 1))
def test_addresses_that_the_library_calls_private_are_never_public(number: int) -> None:
    address = ipaddress.IPv4Address(number)
    if address.is_private or address.is_multicast or address.is_reserved or address.is_loopback:
        assert not is_public(str(address))
        for prefix in ("::", "::ffff:", "64:ff9b::"):
            assert not is_public(f"{prefix}{address}")
    assert not is_public(str(ipaddress.IPv6Address((0x2002 << 112) | number << 80)))  # 6to4 of whatever


REFUSED = {
    "decimal": "http://2130706433/",
    "hex": "http://0x7f000001/",
    "hex in parts": "http://0x7f.0.0.1/",
    "hex at the end": "http://127.0.0.0x1/",
    "only 0x": "http://127.0.0.0x/",
    "octal": "http://0177.0.0.1/",
    "octal everywhere": "http://0177.0000.0000.0001/",
    "short": "http://127.1/",
    "shorter": "http://127.0.1/",
    "zero": "http://0/",
    "leading zeros": "http://127.000.000.001/",
    "too large a part": "http://256.1.1.1/",
    "five parts": "http://1.2.3.4.5/",
    "a name that ends in a number": "http://example.127/",
    "two dots at the end": "http://127.0.0.1../",
    "fullwidth digits": "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
    "circled digits": "http://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/",
    "ideographic dots": "http://127\u30020\u30020\u30021/",
    "fullwidth dots": "http://127\uff0e0\uff0e0\uff0e1/",
    "superscripts": "http://\u00b9\u00b2\u2077.0.0.1/",
    "percent in the host": "http://127%2e0%2e0%2e1/",
    "percent letters": "http://%6c%6f%63%61lhost/",
    "a zone": "http://[fe80::1%25eth0]/",
    "a raw zone": "http://[fe80::1%eth0]/",
    "brackets around a name": "http://[localhost]/",
    "an open bracket": "http://[::1/",
    "something behind the bracket": "http://[::1]evil/",
    "userinfo": "http://user:secret@example.com/",
    "a user alone": "http://example.com@127.0.0.1/",
    "an empty user": "http://@127.0.0.1/",
    "a port for a password": "http://example.com:80@127.0.0.1/",
    "an encoded user": "http://example.com%40127.0.0.1/",
    "a backslash": "http://example.com\\@127.0.0.1/",
    "a backslash for a slash": "http:\\\\127.0.0.1/",
    "one slash": "http:/127.0.0.1/",
    "no slash": "http:127.0.0.1",
    "three slashes": "http:///127.0.0.1/",
    "no scheme": "//127.0.0.1/",
    "only a host": "example.com",
    "file": "file:///etc/passwd",
    "ftp": "ftp://example.com/",
    "gopher": "gopher://127.0.0.1:6379/_INFO",
    "dict": "dict://127.0.0.1:11211/stats",
    "data": "data:text/plain,hello",
    "javascript": "javascript:alert(1)",
    "a unix socket": "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "unix": "unix:///var/run/docker.sock",
    "ldap": "ldap://127.0.0.1/",
    "a jar": "jar:http://127.0.0.1!/",
    "a scheme inside": "url:http://127.0.0.1/",
    "a view of the source": "view-source:http://127.0.0.1/",
    "websocket": "ws://127.0.0.1/",
    "a space in the host": "http://127.0.0.1 .example.com/",
    "a tab in the host": "http://127.0.\t0.1/",
    "a line end": "http://example.com/\r\nHost: evil",
    "a NUL": "http://example.com\x00.evil.com/",
    "a soft hyphen": "http://exam\u00adple.com/",
    "zero width": "http://exam\u200bple.com/",
    "a joiner": "http://exam\u200dple.com/",
    "right to left": "http://\u202eexample.com/",
    "sharp s": "http://stra\u00dfe.example/",
    "final sigma": "http://\u03b2\u03cc\u03bb\u03bf\u03c2.com/",
    "a lone surrogate": "http://\ud800.com/",
    "no host": "http:///path",
    "no host but a port": "http://:80/",
    "an empty label": "http://example..com/",
    "a dot in front": "http://.example.com/",
    "a long label": f"http://{'a' * 64}.com/",
    "a long host": f"http://{'a.' * 130}com/",
    "a hyphen in front": "http://-example.com/",
    "port 0": "http://example.com:0/",
    "port 65536": "http://example.com:65536/",
    "a signed port": "http://example.com:+80/",
    "a negative port": "http://example.com:-80/",
    "a hex port": "http://example.com:0x50/",
    "fullwidth port": "http://example.com:\uff18\uff10/",
    "two ports": "http://example.com:80:80/",
    "a named port": "http://example.com:http/",
    "too long": f"http://example.com/{'a' * URL_CHARS_MAX}",
    "nothing": "",
}


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED.keys())
def test_f39_an_odd_form_is_refused_with_one_sentence(url: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        parse_url(url)
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


READ = [
    ("https://example.com", "https://example.com/"),
    ("HTTPS://EXAMPLE.com:443/A?b#c", "https://example.com/A?b"),
    ("http://example.com.:8080/", "http://example.com:8080/"),
    ("http://example.com?x=1", "http://example.com/?x=1"),
    ("http://example.com#x@evil.com/", "http://example.com/"),
    ("http://example.com/@127.0.0.1/", "http://example.com/@127.0.0.1/"),
    ("http://b\u00fccher.example/\u00e4?\u00f6", "http://xn--bcher-kva.example/%C3%A4?%C3%B6"),
    ("http://\uff45\uff58ample.com/", "http://example.com/"),
    ("http://example\u3002com/", "http://example.com/"),
    ("http://93.184.216.34:8080/x", "http://93.184.216.34:8080/x"),
    ("http://[2606:4700:0:0::1]:8080/x", "http://[2606:4700::1]:8080/x"),
    ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    ("http://under_score.example/a%20b?q=%C3%A4", "http://under_score.example/a%20b?q=%C3%A4"),
    ('http://example.com/"<x>"', "http://example.com/%22%3Cx%3E%22"),
    (" http://example.com/ \n", "http://example.com/"),
]


@pytest.mark.parametrize(("url", "read"), READ, ids=[str(index) for index in range(len(READ))])
def test_an_address_is_read_in_one_form(url: str, read: str) -> None:
    assert parse_url(url).url == read
    assert parse_url(read).url == read


@given(st.text(max_size=60), st.sampled_from(["http://", "https://", ""]))
def test_every_accepted_url_has_a_plain_name_or_a_plain_address(text: str, scheme: str) -> None:
    """What a resolver would take for an address is one in our eyes too, and is checked as such."""
    try:
        place = parse_url(scheme + text)
    except AddressRefused:
        return
    assert place.url.isascii()
    assert not set(place.url) & set(" \t\r\n\\")
    assert "@" not in place.authority
    if not place.is_ip_address:
        with pytest.raises(OSError):
            socket.inet_aton(place.host)
        with pytest.raises(ValueError):
            ipaddress.ip_address(place.host)


@given(
    st.lists(st.sampled_from(["0", "1", "7", "127", "0x", "f", ".", "017", "255", "a", "\uff11", "\u3002"]), max_size=8)
)
def test_numbers_in_any_mixture_are_refused_or_plain(pieces: list[str]) -> None:
    try:
        place = parse_url(f"http://{''.join(pieces)}/")
    except AddressRefused:
        return
    if place.is_ip_address:
        assert str(ipaddress.ip_address(place.host)) == place.host
    else:
        with pytest.raises(OSError):
            socket.inet_aton(place.host)


REDIRECTS = {
    "/x": "https://example.com/x",
    "y?z": "https://example.com/d/y?z",
    "//other.example/": "https://other.example/",
    "https://other.example:8443/a": "https://other.example:8443/a",
    "?q": "https://example.com/d/e?q",
    "": "https://example.com/d/e",
}


@pytest.mark.parametrize(("location", "leads"), REDIRECTS.items())
def test_a_redirect_is_read_against_where_it_stands(location: str, leads: str) -> None:
    assert resolve_redirect(parse_url("https://example.com/d/e"), location).url == leads


@pytest.mark.parametrize(
    "location",
    [
        *("http://example.com/", "file:///etc/passwd", "//user@127.0.0.1/", "https://2130706433/", "/\\evil.com"),
        *("\thttps://evil.com", "https://[::1", "gopher://x/", "https://evil.com\r\nX: y", "javascript:x"),
    ],
)
def test_f39_a_redirect_leads_to_no_odd_place_and_never_out_of_encryption(location: str) -> None:
    with pytest.raises(AddressRefused):
        resolve_redirect(parse_url("https://example.com/d/e"), location)


def test_web_servers_are_at_80_443_and_above_1023() -> None:
    assert all(is_web_port(port) for port in (80, 443, 3000, 8000, 8080, 8443, 65535))
    assert not any(is_web_port(port) for port in (1, 21, 22, 23, 25, 53, 110, 143, 445, 993, 2049, 6000, 6379, 11211))
