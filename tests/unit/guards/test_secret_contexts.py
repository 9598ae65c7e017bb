"""Secrets by their prefix, and secrets that a flag, a header, a sentence, a table or a line prefix announces."""

from __future__ import annotations

import random
import re
import string

import pytest

from mainstay.guards.redaction import Redactor
from mainstay.guards.secret_formats import _PREFIXED

REDACTOR = Redactor()
PERSONAL = Redactor(secrets=False, pii=True)
PASSWORD = "hunter" + "2x"
TOKEN = "9944b09199c62bcf" + "9418ad846dd0e4bb"
KEY_LINE = "MIIEpQIBAAKCAQEAn6/O8li+SX4m98LLYt" * 2


def streamed(redactor: Redactor, *pieces: str) -> str:
    stream = redactor.open_stream()
    return "".join([*map(stream.feed, pieces), stream.finish()])


def assert_redacted(redactor: Redactor, text: str, secret: str) -> None:
    """The secret is taken out, and no split lets a part of it through or changes the output."""
    whole = redactor.redact(text)[0]
    assert secret not in whole
    assert "[redacted: " in whole
    assert whole.startswith(text.partition(secret)[0])
    for cut in range(len(text) + 1):
        stream = redactor.open_stream()
        first = stream.feed(text[:cut])
        assert whole.startswith(first)
        assert first + stream.feed(text[cut:]) + stream.finish() == whole
    assert streamed(redactor, *text) == whole


@pytest.mark.parametrize(("name", "prefix"), [(row[0], row[1].split()[0]) for row in _PREFIXED])
def test_a_prefix_and_a_length_are_enough(name: str, prefix: str) -> None:
    """No token is let through because it does not look random enough."""
    chance = random.Random(prefix)
    _, _, characters, least, _ = next(row for row in _PREFIXED if row[0] == name and row[1].split()[0] == prefix)
    alphabet = [c for c in string.ascii_letters + string.digits if re.match(characters, c)]
    for _ in range(40):
        token = prefix + "".join(chance.choices(alphabet, k=least))
        assert token[len(prefix) :] not in REDACTOR.redact(f"Use {token} here.")[0]


def test_no_token_of_letters_alone_leaks() -> None:
    chance = random.Random(1)
    for _ in range(1000):
        token = "h" + "f_" + "".join(chance.choices(string.ascii_letters, k=34))
        assert REDACTOR.redact(token)[0] == "[redacted: hugging face token]"


def test_no_secret_leaks_because_of_its_first_character() -> None:
    chance = random.Random(2)
    alphabet = string.ascii_letters + string.digits + "+/"
    for first in alphabet * 4:
        secret = first + "".join(chance.choices(alphabet, k=39))
        assert secret[1:] not in REDACTOR.redact(f"aws_secret_access_key = {secret}\n")[0]


@pytest.mark.parametrize(
    "text",
    [
        "hf_" + "x" * 34,
        "AK" + "IAXXXXXXXXXXXXXXXX",
        "AK" + "IAIOSFODNN7EXAMPLE",
        "sk-learn, task-oriented-dialogue-systems and sk-something-with-many-words",
    ],
)
def test_what_no_issuer_writes_stays(text: str) -> None:
    assert REDACTOR.redact(text)[0] == text


@pytest.mark.parametrize(
    "frame",
    [
        "curl -u anna:{} https://api.example.com",
        "curl -u 'anna:{}' x",
        "curl --user anna:{} x",
        'curl --user="anna:{}" x',
        "mysql -u root -p{} shop",
        "mysqldump -uroot -p'{}' shop",
        "sshpass -p {} ssh anna@host",
        "docker login -u anna -p {} registry.example.com",
        "redis-cli -h cache -a {} ping",
        "tool --password {} run",
        "tool --db-password={} run",
        "machine api.example.com login anna password {}",
        "machine api.example.com\n  login anna\n  password {}\n",
        "the password is {}, thanks",
        "The password for the staging server is {}.",
        "The password was changed to {} today.",
        "My password is now: {}",
        "password is '{}'",
        "| password | {} |",
        "| user | password |\n|---|---|\n| anna | {} |\n",
        "| user | password |\n|---|---|\n| bob | none |\n| anna | `{}` |\n",
        " user | password\n------+----------\n anna | {}\n",
        "password\t{}",
        "<password>{}</password>",
        "<dbPassword>\n  {}\n</dbPassword>",
        "- name: DB_PASSWORD\n  value: {}",
        'set("DB_PASSWORD", "{}")',
        'password: str = "{}"',
        'PASSWORD ?= "{}"',
    ],
)
def test_an_announced_password_is_taken_out(frame: str) -> None:
    assert_redacted(REDACTOR, frame.format(PASSWORD), PASSWORD)


@pytest.mark.parametrize(
    "frame",
    [
        "tool --token {} run",
        "tool --api-key={} run",
        "Authorization: Token {}",
        "curl -H 'Authorization: ApiKey {}' x",
        "Authorization: {}",
        "Authorization: Bearer {}",
        "PRIVATE-TOKEN: {}",
        "my api key is {}",
        "The token for the bot is `{}`.",
        "| name | token |\n| --- | --- |\n| ci | {} |\n",
        "token: |\n  {}\n",
        "Using Key={}",
    ],
)
def test_an_announced_token_is_taken_out(frame: str) -> None:
    assert_redacted(REDACTOR, frame.format(TOKEN), TOKEN)


@pytest.mark.parametrize(
    "text",
    [
        "docker run -u 1000:1000 image",
        "docker run -u app:staff image",
        'curl -u "$USER:$PASSWORD" https://api.example.com',
        "mkdir -p build/output2 && cp -a src2 dest2",
        "mysql -P 3306 -h db",
        "Use --token to log in and --password for the rest.",
        "The password is required.",
        "The password is stored in the vault.",
        "The password is base64-encoded and the key is 2048-bit.",
        "The token is 4096 characters long.",
        "Reset the password to continue.",
        "Authorization: required for all routes",
        "| user | password |\n|---|---|\n| anna | required |\n",
        "| token | meaning |\n|---|---|\n| `eos` | the end of a text |\n",
        "| a | password |\n|---|---|\n\nLater | version2beta |",
        "cache_key = 'users2024profile17settings'",
    ],
)
def test_words_that_announce_no_secret_stay(text: str) -> None:
    assert REDACTOR.redact(text)[0] == text
    assert streamed(REDACTOR, *text) == text


def test_a_long_table_keeps_its_headings_in_any_split() -> None:
    note = "a note about this user " * 9
    rows = [f"| user{i} {note}| {PASSWORD}{i} | {note}|" for i in range(120)]
    text = "\n".join(["| user | password | note |", "|---|---|---|", *rows, "", "The end."])
    whole = REDACTOR.redact(text)[0]
    assert PASSWORD not in whole
    assert whole.count("[redacted: ") == 120
    assert streamed(REDACTOR, *[text[i : i + 7] for i in range(0, len(text), 7)]) == whole


@pytest.mark.parametrize("prefix", ["> ", "# ", "// ", " * ", "+", "| ", "    ", "12: ", "; ", ""])
def test_a_private_key_with_a_prefix_on_each_line_is_taken_out(prefix: str) -> None:
    kind = "RSA " + "PRIVATE KEY"
    lines = [f"-----BEGIN {kind}-----", KEY_LINE, KEY_LINE, f"-----END {kind}-----"]
    text = "\n".join(["see", *(prefix + line for line in lines), "bye"])
    whole = REDACTOR.redact(text)[0]
    assert whole == f"see\n{prefix}[redacted: private key]\nbye"
    for cut in range(len(text) + 1):
        assert streamed(REDACTOR, text[:cut], text[cut:]) == whole


def test_a_private_key_in_the_strings_of_a_program_is_taken_out() -> None:
    kind = "PRIVATE KEY"
    text = f'key = "-----BEGIN {kind}-----\\n" +\n  "{KEY_LINE}\\n" +\n  "-----END {kind}-----\\n"; done()'
    assert KEY_LINE[:20] not in REDACTOR.redact(text)[0]
    assert REDACTOR.redact(text)[0].endswith("done()")


@pytest.mark.parametrize(
    ("kind", "value", "frame"),
    [
        ("card number", "2221000000000009", "Card {}."),
        ("card number", "2720 9900 0000 0007", "Card {}."),
        ("card number", "4111.1111.1111.1111", "Card {}."),
        ("card number", "4111/1111/1111/1111", "Card {}."),
        ("card number", "4111\u00a01111\u00a01111\u00a01111", "Card {}."),
        ("card number", "4111\u20131111\u20131111\u20131111", "Card {}."),
        ("card number", "3782.822463.10005", "Amex {}."),
        ("social security number", "123 45 6789", "SSN {} on file."),
        ("social security number", "123.45.6789", "My social security number is {}."),
        ("phone number", "(02) 9876 5432", "Sydney {}."),
        ("phone number", "(030) 901820", "Berlin {}."),
        ("phone number", "(11) 91234-5678", "S\u00e3o Paulo {}."),
        ("phone number", "0171/1234567", "Handy {}."),
        ("phone number", "01 23 45 67 89", "Paris {}."),
        ("phone number", "1-800-555-0100", "Free: {}."),
        ("phone number", "8 (912) 345-67-89", "Moscow {}."),
        ("phone number", "0049 30 901820", "From abroad {}."),
        ("phone number", "+44 (0)20 7946 0958", "London {}."),
        ("phone number", "+49\u00a030\u00a0901820", "Berlin {}."),
        ("phone number", "06-12345678", "Amsterdam {}."),
        ("phone number", "612 345 678", "call {} now"),
        ("phone number", "98765 43210", "mobile: {}"),
        ("phone number", "4155552671", "phone {}"),
        ("phone number", "12 34 56 78", "tel. {}"),
    ],
)
def test_personal_data_in_other_formats_is_taken_out(kind: str, value: str, frame: str) -> None:
    text = frame.format(value)
    assert PERSONAL.redact(text)[0] == frame.format(f"[redacted: {kind}]")
    for cut in range(len(text) + 1):
        assert streamed(PERSONAL, text[:cut], text[cut:]) == frame.format(f"[redacted: {kind}]")


@pytest.mark.parametrize(
    "text",
    [
        "A price of 612 345 678 euros, and 98765 43210 people.",
        "In the report (2024) 12345 rows; since (1990) 4567 890.",
        "Item 123 45 6789 is in stock.",
        "2720 9900 0000 0008 has a wrong sum, and 2721 0000 0000 0004 is no card.",
    ],
)
def test_other_numbers_stay(text: str) -> None:
    assert PERSONAL.redact(text)[0] == text
