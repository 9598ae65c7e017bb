"""Recall and false alarms of the guards on the test tables of published scanners and on published attacks.

Nothing of these projects is part of this repository: pass the folder of their checkouts. The tables are read, not run.

    python benchmarks/published_guard_tables.py FOLDER

Expected folders: gitleaks, trufflehog, detect-secrets, presidio (secrets and personal data); tensor-trust-data, garak,
BIPIA (attacks); skills, self-instruct, FastChat (harmless skills and chat; the Markdown files of all checkouts are the
harmless documents). What is missing is left out. Results go to benchmarks/results/guards_published.json.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]

from mainstay.guards.injection_scanner import scan_text
from mainstay.guards.redaction import Redactor

HERE = Path(__file__).parent
Case = tuple[str, str, str, bool]  # family, text, the secret if known, whether it is to be found
DOCUMENT_CHARS_MAX = 8 * 1024

# --- Go: gitleaks and trufflehog -----------------------------------------------------------------

_GO_TOKEN = re.compile(
    r"//[^\n]*|/\*[\s\S]*?\*/|`[^`]*`|\"(?:\\.|[^\"\\\n])*\"|[A-Za-z_][A-Za-z0-9_.]*|[0-9]+|:=|\.\.\.|[^\s]"
)
_CLASSES = {
    "utils.Hex": "[a-f0-9]{%s}",
    "utils.AlphaNumeric": "[a-z0-9]{%s}",
    "utils.AlphaNumericExtended": "[a-z0-9=_-]{%s}",
    "utils.AlphaNumericExtendedShort": "[a-z0-9_-]{%s}",
    "utils.AlphaNumericExtendedLong": "[a-z0-9/=_+-]{%s}",
    "utils.Numeric": "[0-9]{%s}",
}
_UUID = "[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}"


class NotReadable(Exception):
    """An expression that this reader does not evaluate."""


class GoReader:
    """Evaluates the string expressions of a Go source: literals, sums, Sprintf and generated secrets."""

    def __init__(self, source: str, chance: random.Random) -> None:
        self.tokens = [token for token in _GO_TOKEN.findall(source) if not token.startswith(("//", "/*"))]
        self.names: dict[str, str] = {}
        self.at = 0
        self._chance = chance

    def read_assignments(self) -> None:
        """Collect the names that are bound to strings."""
        for i, token in enumerate(self.tokens[:-2]):
            if self.tokens[i + 1] in ("=", ":=") and re.fullmatch(r"[A-Za-z_]\w*", token):
                self.at = i + 2
                try:
                    self.names.setdefault(token, self.read_string())
                except (NotReadable, IndexError):
                    continue

    def read_string(self) -> str:
        value = self._read_operand()
        while self.at < len(self.tokens) and self.tokens[self.at] == "+":
            self.at += 1
            value += self._read_operand()
        return value

    def _read_operand(self) -> str:
        token = self.tokens[self.at]
        self.at += 1
        if token[0] == "`":
            return token[1:-1]
        if token[0] == '"':
            return str(ast.literal_eval(token))
        if self.at < len(self.tokens) and self.tokens[self.at] == "(":
            return self._call(token, self._read_arguments())
        if token in self.names:
            return self.names[token]
        raise NotReadable(token)

    def _read_arguments(self) -> list[str]:
        self.at += 1
        values: list[str] = []
        while self.tokens[self.at] != ")":
            values.append(self.read_string())
            if self.tokens[self.at] == ",":
                self.at += 1
        self.at += 1
        return values

    def _call(self, name: str, values: list[str]) -> str:
        if name == "fmt.Sprintf":
            return _sprintf(values)
        if name in ("secrets.NewSecret", "newPlausibleSecret"):
            return generate(values[0], self._chance)
        if name in _CLASSES:
            return _CLASSES[name] % values[0]
        if name == "utils.Hex8_4_4_4_12":
            return _UUID
        raise NotReadable(name)


def _sprintf(values: list[str]) -> str:
    text = values[0]
    for value in values[1:]:
        text = re.sub(r"%[sqv]", lambda _, value=value: value, text, count=1)  # type: ignore[misc]
    return text


def generate(expression: str, chance: random.Random) -> str:
    """Return a random text that matches a simple regular expression."""
    flags = re.IGNORECASE if "(?i)" in expression else 0
    tree = _parser.parse(expression.replace("(?i)", "").replace("(?-i:", "(?:"), flags)
    return "".join(_generate_items(tree, chance))


def _generate_items(items: object, chance: random.Random) -> Iterator[str]:
    for op, value in items:  # type: ignore[attr-defined]
        match op:
            case ops.LITERAL:
                yield chr(value)
            case ops.IN:
                yield chance.choice(sorted(_members(value)))
            case ops.MAX_REPEAT | ops.MIN_REPEAT:
                least, most, inner = value
                for _ in range(chance.randint(least, min(most, max(least, 40)))):
                    yield from _generate_items(inner, chance)
            case ops.SUBPATTERN:
                yield from _generate_items(value[-1], chance)
            case ops.BRANCH:
                yield from _generate_items(chance.choice(value[1]), chance)
            case ops.AT:
                continue
            case _:
                raise NotReadable(str(op))


def _members(items: object) -> set[str]:
    members: set[str] = set()
    for op, value in items:  # type: ignore[attr-defined]
        if op is ops.LITERAL:
            members.add(chr(value))
        elif op is ops.RANGE:
            members.update(map(chr, range(value[0], value[1] + 1)))
        elif op is ops.CATEGORY and value is ops.CATEGORY_WORD:
            members.update("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
        elif op is ops.CATEGORY and value is ops.CATEGORY_DIGIT:
            members.update("0123456789")
    return members


def read_gitleaks(folder: Path) -> Iterator[Case]:
    chance = random.Random(7)
    formats = _read_sample_formats(folder / "cmd/generate/config/utils/generate.go")
    for path in sorted((folder / "cmd/generate/config/rules").glob("*.go")):
        for body in path.read_text("utf-8").split("\nfunc ")[1:]:
            if "tps" not in body or "ValidateWithPaths" in body:
                continue
            yield from _read_rule(_gitleaks_family(path.stem, body), body, formats, chance)


def _gitleaks_family(stem: str, body: str) -> str:
    known = {
        "curl": "flags and headers",
        "privatekey": "private keys",
        "generic": "generic names",
        "jwt": "json web tokens",
    }
    return known.get(stem, "vendor name and value" if "GenerateSemiGenericRegex" in body else "token formats")


def _read_sample_formats(path: Path) -> list[str]:
    source = path.read_text("utf-8").partition("samples := map[string]string{")[2].partition("\n\t}")[0]
    reader = GoReader(source, random.Random(0))
    return [
        reader._call("fmt.Sprintf", [token[1:-1] if token[0] == "`" else ast.literal_eval(token)])
        for before, token in zip(reader.tokens, reader.tokens[1:], strict=False)
        if before == ":" and token[0] in '`"'
    ]


def _read_rule(family: str, body: str, formats: list[str], chance: random.Random) -> Iterator[Case]:
    reader = GoReader("func " + body, chance)
    reader.read_assignments()
    harmful = True
    reader.at = next((i for i, t in enumerate(reader.tokens) if t == "tps"), len(reader.tokens))
    while reader.at < len(reader.tokens):
        token = reader.tokens[reader.at]
        if token == "fps":
            harmful = False
        if token in ("utils.GenerateSampleSecrets", "utils.GenerateSampleSecret"):
            reader.at += 1
            try:
                name, secret = reader._read_arguments()
            except (NotReadable, ValueError):
                continue
            for sample in formats if token.endswith("s") else ['{i}_api_token = "{s}"']:
                text = sample.replace("{i}", name).replace("{I}", name.upper()).replace("{s}", secret)
                yield family, text, secret, harmful
        elif token[0] in '`"' or token in ("fmt.Sprintf", "secrets.NewSecret"):
            try:
                yield family, reader.read_string(), "", harmful
            except NotReadable:
                reader.at += 1
        else:
            reader.at += 1


def read_trufflehog(folder: Path) -> Iterator[Case]:
    """The cases with a result that occurs in the input; those without one test what its detectors call a match."""
    for path in sorted((folder / "pkg/detectors").rglob("*_test.go")):
        if "integration" in path.name:
            continue
        reader = GoReader(path.read_text("utf-8"), random.Random(3))
        reader.read_assignments()
        text = ""
        for i, token in enumerate(reader.tokens[:-3]):
            if token == "input" and reader.tokens[i + 1] == ":":
                reader.at = i + 2
                try:
                    text = reader.read_string()
                except (NotReadable, IndexError):
                    text = ""
            if token == "want" and reader.tokens[i + 1] == ":" and text:
                for secret in _read_wanted(reader, i + 2):
                    if len(secret) >= 8 and secret in text:
                        yield "all detectors", text, secret, True
                text = ""


def _read_wanted(reader: GoReader, at: int) -> list[str]:
    if reader.tokens[at : at + 4] != ["[", "]", "string", "{"]:
        return []
    reader.at = at + 4
    wanted = []
    while reader.tokens[reader.at] != "}":
        try:
            wanted.append(reader.read_string())
        except NotReadable:
            return wanted
        if reader.tokens[reader.at] == ",":
            reader.at += 1
    return wanted


# --- Python: detect-secrets and presidio ---------------------------------------------------------


def _evaluate(node: ast.expr, names: dict[str, object]) -> object:
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name) if name in names:
            return names[name]
        case ast.Tuple(items) | ast.List(items):
            return tuple(_evaluate(item, names) for item in items)
        case ast.BinOp(left, ast.Add(), right):
            return _evaluate(left, names) + _evaluate(right, names)  # type: ignore[operator]
        case ast.BinOp(left, ast.Mult(), right):
            return _evaluate(left, names) * _evaluate(right, names)  # type: ignore[operator]
        case ast.JoinedStr(parts):
            return "".join(str(_evaluate(part, names)) for part in parts)
        case ast.FormattedValue(value):
            return _evaluate(value, names)
        case ast.Subscript(value, ast.Slice(lower, upper, None)):
            sliced = _evaluate(value, names)
            bounds = [None if bound is None else _evaluate(bound, names) for bound in (lower, upper)]
            return sliced[bounds[0] : bounds[1]]  # type: ignore[index,misc]
        case ast.Call(ast.Attribute(value, "format"), arguments, keywords):
            given = {word.arg: _evaluate(word.value, names) for word in keywords if word.arg}
            return str(_evaluate(value, names)).format(*(_evaluate(a, names) for a in arguments), **given)
    raise NotReadable(ast.dump(node)[:60])


def _tables(path: Path) -> Iterator[tuple[object, ...]]:
    """The rows of all parametrised tests of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    names: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                names[node.targets[0].id] = _evaluate(node.value, names)
            except (NotReadable, TypeError, ValueError, KeyError, IndexError):
                continue
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("parametrize") and len(node.args) > 1):
            continue
        rows = node.args[1].elts if isinstance(node.args[1], ast.List | ast.Tuple) else [node.args[1]]
        for row in rows:
            try:
                value = _evaluate(row, names)
            except (NotReadable, TypeError, ValueError, KeyError, IndexError):
                continue
            if isinstance(row, ast.Name) and isinstance(value, tuple):
                yield from (item for item in value if isinstance(item, tuple))
            elif isinstance(value, tuple):
                yield value


def read_detect_secrets(folder: Path) -> Iterator[Case]:
    for path in sorted((folder / "tests/plugins").glob("*_test.py")):
        if path.stem in ("base_test", "high_entropy_strings_test", "ip_public_test"):
            continue
        family = "names and values" if path.stem == "keyword_test" else "token formats"
        for row in _keyword_rows(path) if path.stem == "keyword_test" else _tables(path):
            if len(row) >= 2 and isinstance(row[0], str) and (row[1] is None or isinstance(row[1], bool | str)):
                secret = row[1] if isinstance(row[1], str) else ""
                yield family, row[0], secret, bool(row[1])


def _keyword_rows(path: Path) -> Iterator[tuple[object, ...]]:
    names: dict[str, object] = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        name = node.targets[0].id
        if not name.endswith("TEST_CASES"):
            try:
                names[name] = _evaluate(node.value, names)
            except NotReadable:
                continue
        elif isinstance(node.value, ast.List):
            for row in node.value.elts:
                try:
                    value = _evaluate(row, names)
                except (NotReadable, IndexError, KeyError):
                    continue
                if isinstance(value, tuple):
                    yield value


_PRESIDIO = {
    "credit_card": "payment cards",
    "email": "e-mail addresses",
    "iban": "bank accounts",
    "ip": "ip addresses",
    "phone": "phone numbers",
    "us_ssn": "social security numbers",
    "uk_nino": "national insurance numbers",
    "crypto": "bitcoin addresses",
    "tr_phone_number": "phone numbers, Turkish",
    "ph_mobile_number": "phone numbers, Philippine",
}


def read_presidio(folder: Path) -> Iterator[Case]:
    """The expected count of findings is the second value of a row."""
    for stem, family in _PRESIDIO.items():
        path = folder / f"presidio-analyzer/tests/test_{stem}_recognizer.py"
        for row in _tables(path) if path.exists() else ():
            if len(row) >= 2 and isinstance(row[0], str) and isinstance(row[1], int):
                yield family, row[0], "x" * row[1], row[1] > 0


# --- measurements --------------------------------------------------------------------------------


def is_shown(secret: str, text: str) -> bool:
    part = max(6, min(12, len(secret) // 2))
    return any(secret[i : i + part] in text for i in range(max(1, len(secret) - part + 1)))


def measure_redaction(cases: Iterator[Case], redactor: Redactor, *, counted: bool = False) -> dict[str, object]:
    tally: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])  # found, to be found, alarms, harmless
    for family, text, secret, harmful in dict.fromkeys(cases):
        clean = redactor.redact(text)[0]
        figures = tally[family]
        if not harmful:
            figures[2] += clean != text
            figures[3] += 1
        else:
            if counted:
                found = clean.count("[redacted: ") >= len(secret)
            else:
                found = clean != text and not (secret and is_shown(secret, clean))
            figures[0] += found
            figures[1] += 1
    return {family: _describe(*figures) for family, figures in sorted(tally.items())}


def _describe(found: int, harmful: int, alarms: int, harmless: int) -> dict[str, object]:
    return {
        "to be found": harmful,
        "recall": round(found / harmful, 3) if harmful else None,
        "harmless": harmless,
        "false alarms": round(alarms / harmless, 3) if harmless else None,
    }


def read_attacks(folder: Path) -> Iterator[tuple[str, str]]:
    for kind in ("hijacking", "extraction"):
        for path in (folder / "tensor-trust-data").rglob(f"{kind}_robustness_dataset.jsonl"):
            for line in path.read_text("utf-8").splitlines():
                yield f"Tensor Trust, {kind}", json.loads(line)["attack"]
    jailbreaks = folder / "garak/garak/data/inthewild_jailbreak_llms.txt"
    if jailbreaks.exists():
        yield from (("garak, jailbreaks", text) for text in jailbreaks.read_text("utf-8").splitlines() if text.strip())
    for name, family in (("text_attack_test", "BIPIA, texts"), ("code_attack_test", "BIPIA, code")):
        path = folder / f"BIPIA/benchmark/{name}.json"
        if path.exists():
            yield from ((family, text) for texts in json.loads(path.read_text("utf-8")).values() for text in texts)


def read_harmless(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.md")):
        if ".git" in path.parts or not path.is_file():
            continue
        family = "skills" if "skills" in path.relative_to(folder).parts[:1] else "documents"
        text = path.read_text("utf-8", "replace")
        yield from ((family, text[i : i + DOCUMENT_CHARS_MAX]) for i in range(0, len(text), DOCUMENT_CHARS_MAX))
    for path in sorted((*(folder / "self-instruct").rglob("*.jsonl"), *(folder / "FastChat").rglob("question.jsonl"))):
        for line in path.read_text("utf-8", "replace").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            for text in _texts(row):
                if len(text) >= 20:
                    yield "chat", text


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)


def measure_scanner(folder: Path) -> dict[str, object]:
    tally: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for harmful, texts in ((True, read_attacks(folder)), (False, read_harmless(folder))):
        for family, text in dict.fromkeys(texts):
            figures = tally[("attacks: " if harmful else "harmless: ") + family]
            figures[0] += scan_text(text) is not None
            figures[1] += 1
    return {
        family: {"texts": count, "reported": round(reported / count, 4)}
        for family, (reported, count) in sorted(tally.items())
    }


def measure_redaction_of_harmless(folder: Path, redactor: Redactor) -> dict[str, object]:
    """How many texts lose something; documents about secrets contain examples that look like secrets."""
    tally: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for family, text in dict.fromkeys(read_harmless(folder)):
        tally[family][0] += redactor.redact(text)[0] != text
        tally[family][1] += 1
    return {
        family: {"texts": count, "changed": round(changed / count, 4)}
        for family, (changed, count) in sorted(tally.items())
    }


def measure(folder: Path) -> dict[str, object]:
    secrets, personal = Redactor(), Redactor(secrets=False, pii=True)
    results: dict[str, object] = {}
    for name, read in (
        ("gitleaks", read_gitleaks),
        ("trufflehog", read_trufflehog),
        ("detect-secrets", read_detect_secrets),
    ):
        if (folder / name).exists():
            results[name] = measure_redaction(read(folder / name), secrets)
    if (folder / "presidio").exists():
        results["presidio"] = measure_redaction(read_presidio(folder / "presidio"), personal, counted=True)
    results["redactor on harmless texts"] = measure_redaction_of_harmless(folder, secrets)
    results["scanner"] = measure_scanner(folder)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder with the checkouts")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "guards_published.json")
    arguments = parser.parse_args()
    results = measure(arguments.folder)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
