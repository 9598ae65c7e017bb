"""Lexer for shell scripts: quoting, escapes and expansions, as POSIX sh and bash read them.

A word whose value is only known at run time has the value None. Where the two shells read a text differently, the lexer
records an ambiguity, and the analysis reports that the script cannot be understood with certainty.
"""

from __future__ import annotations

import re

from mainstay.trust.shell.syntax import (
    NESTING_MAX,
    UNKNOWN_WORD,
    ParseState,
    Redirection,
    ScriptUnparsable,
    ShellWord,
    decode_ansi,
    literal_word,
)

_PLAIN = re.compile(r"[^\s\\'\"`$()<>|&;{\[*?~]+")
_BARE = re.compile(r"[\w./:=,@%+-]+(?=[ \n;|]|$)", re.ASCII)
_IN_DOUBLE = re.compile(r"[^\\\"`$]+")
_IN_BRACES = re.compile(r"[^\\\"'`$}@<>]+")
_IN_ARITHMETIC = re.compile(r"[^\\\"'`$()]+")
_SIMPLE_PARAMETER = re.compile(r"\{[#!]?\w+\}|\w+|[@*#?$!-]")
_PATTERN_CHARS = frozenset("*?[{~")


class _WordBuilder:
    """Builds one word. `marks` is its text with everything quoted blanked out: only there, `*` and `?` are patterns."""

    __slots__ = ("known", "marks", "prefix", "quoted", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.marks: list[str] = []
        self.known = True
        self.quoted = False
        self.prefix: str | None = None

    def add_plain(self, text: str) -> None:
        self.text.append(text)
        self.marks.append(text)

    def add_quoted(self, text: str) -> None:
        self.text.append(text)
        self.marks.append("\0" * len(text))
        self.quoted = True

    def add_unknown(self) -> None:
        if self.prefix is None:
            self.prefix = "".join(self.text)
        self.known = False
        self.marks.append("\0")

    def build(self, raw: str) -> ShellWord:
        text, marks = "".join(self.text), "".join(self.marks)
        if self.known and _PATTERN_CHARS.isdisjoint(marks):
            return ShellWord(text, raw, text, text, self.quoted)
        brace, glob = _find_brace(marks), _find_glob(marks)
        tilde = marks.startswith("~")
        if self.known and brace < 0 and glob < 0 and not tilde:
            return ShellWord(text, raw, text, text, self.quoted)
        prefix = text if self.prefix is None else self.prefix
        for start in (brace, glob):
            if start >= 0:
                prefix = prefix[:start] if len(marks) == len(text) else ""
        unexpanded = text if self.known and brace < 0 else None
        return ShellWord(None, raw, "" if tilde else prefix, unexpanded, self.quoted)


def _find_brace(marks: str) -> int:
    """Return the index at which `{a,b}` or `{1..9}` begins, or -1."""
    start = marks.find("{")
    if start < 0:
        return -1
    between = [at for at in (marks.find(",", start), marks.find("..", start)) if at >= 0]
    return start if between and marks.rfind("}") > min(between) else -1


def _find_glob(marks: str) -> int:
    """Return the index at which a file name pattern begins, or -1."""
    start = marks.find("[")
    starts = [at for at in (marks.find("*"), marks.find("?")) if at >= 0]
    if 0 <= start < marks.rfind("]"):
        starts.append(start)
    return min(starts, default=-1)


class ShellLexer:
    """Reads the words of one script. Scripts nested in it, as in `$(…)`, are parsed in place by `parse_commands`."""

    def __init__(self, text: str, state: ParseState, depth: int = 0) -> None:
        self.text = text
        self.pos = 0
        self.depth = depth
        self.state = state
        # here-documents whose text begins on the next line
        self.pending: list[tuple[Redirection, str, bool, bool]] = []
        self.outer_pending = 0
        state.work_chars += len(text)
        self.count_work(0)
        if depth > NESTING_MAX:
            raise ScriptUnparsable("it is nested too deeply")

    def count_work(self, characters: int) -> None:
        self.state.work_chars += characters
        if self.state.work_chars > self.state.work_chars_max:
            raise ScriptUnparsable("reading it would take too long")

    def parse_commands(self, end: str) -> str:
        raise NotImplementedError

    def parse_nested_script(self, text: str) -> None:
        """Parse another text as a script, one level deeper."""
        raise NotImplementedError

    def parse_nested(self, end: str) -> None:
        """Parse commands up to `end`, one level deeper."""
        if self.depth >= NESTING_MAX:
            raise ScriptUnparsable("it is nested too deeply")
        outer, self.pending = self.pending, []
        self.outer_pending += len(outer)
        self.depth += 1
        self.parse_commands(end)
        self.depth -= 1
        self.outer_pending -= len(outer)
        if self.pending:
            raise ScriptUnparsable("a here-document has no text")
        self.pending = outer

    def skip_blanks(self) -> None:
        """Skip spaces, continued lines and comments, but not newlines."""
        text, length = self.text, len(self.text)
        while self.pos < length:
            char = text[self.pos]
            if char in " \t":
                self.pos += 1
            elif char == "\\" and text.startswith("\\\n", self.pos):
                self.pos += 2
            elif char == "#" and self._is_at_word_start():
                end = text.find("\n", self.pos)
                self.pos = length if end < 0 else end
            else:
                return

    def _is_at_word_start(self) -> bool:
        # After a continued line, whether `#` begins a comment depends on the character before that line's end.
        before = self.pos - 1
        while before >= 1 and self.text[before - 1 : before + 1] == "\\\n":
            before -= 2
        return before < 0 or self.text[before] in " \t\n;&|()<>"

    def read_word(self) -> ShellWord:
        text, length, start = self.text, len(self.text), self.pos
        if match := _BARE.match(text, start):  # fast path: most words are plain
            self.pos = match.end()
            return ShellWord(match[0], match[0], match[0], match[0])
        builder = _WordBuilder()
        while self.pos < length:
            if match := _PLAIN.match(text, self.pos):
                builder.add_plain(match[0])
                self.pos = match.end()
                continue
            char = text[self.pos]
            if char in "<>" and text.startswith("(", self.pos + 1):
                self.pos += 2
                self.parse_nested(")")
                builder.add_unknown()
            elif char in " \t\n|&;<>()":
                break
            elif char == "\\":
                self._read_escape(builder)
            elif char == "'":
                builder.add_quoted(self._read_single_quoted())
            elif char == '"':
                self._read_double_quoted(builder)
            elif char == "`":
                self._read_backtick(double=False)
                builder.add_unknown()
            elif char == "$":
                self._read_dollar(builder, double=False)
            else:  # pattern characters, and white space that shells read as part of a word
                builder.add_plain(char)
                self.pos += 1
        if self.pos == start:
            raise ScriptUnparsable(f"a {text[start : start + 1]!r} is where no shell expects it")
        return builder.build(text[start : self.pos])

    def _read_escape(self, builder: _WordBuilder) -> None:
        following = self.text[self.pos + 1 : self.pos + 2]
        self.pos += 2
        if following != "\n":
            builder.add_quoted(following or "\\")

    def _read_single_quoted(self) -> str:
        end = self.text.find("'", self.pos + 1)
        if end < 0:
            raise ScriptUnparsable("a quote is not closed")
        inner = self.text[self.pos + 1 : end]
        self.pos = end + 1
        return inner

    def _read_double_quoted(self, builder: _WordBuilder) -> None:
        text, length = self.text, len(self.text)
        self.pos += 1
        builder.add_quoted("")
        while self.pos < length:
            if match := _IN_DOUBLE.match(text, self.pos):
                builder.add_quoted(match[0])
                self.pos = match.end()
                continue
            char = text[self.pos]
            if char == '"':
                self.pos += 1
                return
            self._read_expansion(builder)
        raise ScriptUnparsable("a quote is not closed")

    def _read_expansion(self, builder: _WordBuilder) -> None:
        """Read a backslash, dollar or backtick inside double quotes or a here-document."""
        char = self.text[self.pos]
        if char == "\\":
            following = self.text[self.pos + 1 : self.pos + 2]
            self.pos += 2
            if following != "\n":
                builder.add_quoted(following if following and following in '$`"\\' else "\\" + following)
        elif char == "`":
            self._read_backtick(double=True)
            builder.add_unknown()
        else:
            self._read_dollar(builder, double=True)

    def read_here_text(self) -> str | None:
        """Read the whole text as a here-document with an unquoted delimiter; None if it is not all literal."""
        builder = _WordBuilder()
        while self.pos < len(self.text):
            char = self.text[self.pos]
            if char in "\\`$":
                self._read_expansion(builder)
            else:
                match = re.compile(r"[^\\`$]+").match(self.text, self.pos)
                assert match is not None
                builder.add_quoted(match[0])
                self.pos = match.end()
        return "".join(builder.text) if builder.known else None

    def _read_backtick(self, *, double: bool) -> None:
        text, length, pos = self.text, len(self.text), self.pos + 1
        inner: list[str] = []
        while pos < length and text[pos] != "`":
            if text[pos] == "\\" and pos + 1 < length:
                escaped = text[pos + 1]
                if double and escaped == '"':
                    self.state.add_ambiguity("quotes in backticks in quotes are read differently by different shells")
                inner.append(escaped if escaped in ('`$\\"' if double else "`$\\") else "\\" + escaped)
                pos += 2
            else:
                inner.append(text[pos])
                pos += 1
        if pos >= length:
            raise ScriptUnparsable("a backtick is not closed")
        self.pos = pos + 1
        self.parse_nested_script("".join(inner))

    def _read_dollar(self, builder: _WordBuilder, *, double: bool) -> None:
        text = self.text
        self.pos += 1
        following = text[self.pos : self.pos + 1]
        if following == "(":
            if not (text.startswith("((", self.pos) and self._read_arithmetic(self.pos + 2)):
                self.pos += 1
                self.parse_nested(")")
            builder.add_unknown()
        elif match := _SIMPLE_PARAMETER.match(text, self.pos):
            self.pos = match.end()
            builder.add_unknown()
        elif following == "{":
            self._skip_parameter(double=double)
            builder.add_unknown()
        elif following == "'" and not double:
            builder.add_quoted(self._read_ansi_quoted())
        elif following == "[":
            self.state.add_ambiguity("`$[` is arithmetic to one shell and text to another")
            builder.add_unknown()
        elif not (following == '"' and not double):  # $"…" is "…", translated
            builder.add_plain("$")

    def _read_ansi_quoted(self) -> str:
        """Read `$'…'`, as bash does."""
        pos, length, text = self.pos + 1, len(self.text), self.text
        while pos < length and text[pos] != "'":
            pos += 2 if text[pos] == "\\" else 1
        if pos >= length:
            raise ScriptUnparsable("a quote is not closed")
        inner = text[self.pos + 1 : pos]
        self.pos = pos + 1
        if "\\'" in inner:
            self.state.add_ambiguity("a quote inside of $'…' ends it in some shells")
        return decode_ansi(inner)

    def _skip_parameter(self, *, double: bool) -> None:
        text, length = self.text, len(self.text)
        self.pos += 1
        if text[self.pos : self.pos + 1] in (" ", "\t", "\n", "|"):
            raise ScriptUnparsable("`${ …}` runs commands in some shells")
        ignored = _WordBuilder()
        while self.pos < length:
            if match := _IN_BRACES.match(text, self.pos):
                self.pos = match.end()
                continue
            char = text[self.pos]
            if char == "}":
                self.pos += 1
                return
            if char in "@<>":
                if text.startswith(("@P", "<(", ">("), self.pos):
                    self.state.add_ambiguity("an expansion runs commands in it")
                self.pos += 1
            elif char in "'\"" and double:
                self.state.add_ambiguity('quotes inside of "${…}" are read differently by different shells')
                self.pos += 1
            elif char == "'":
                self._read_single_quoted()
            elif char == '"':
                self._read_double_quoted(ignored)
            else:
                self._read_expansion(ignored)
        raise ScriptUnparsable("a `${` is not closed")

    def _read_arithmetic(self, start: int) -> bool:
        """Read `$((…))` or `((…))`, from after its opening parentheses.

        Returns False and reads nothing if it is not arithmetic.
        """
        text, length, before, open_inside = self.text, len(self.text), self.pos, 0
        command_count, ambiguity_count = len(self.state.commands), len(self.state.ambiguities)
        depth, pending, outer_pending = self.depth, self.pending, self.outer_pending
        if depth >= NESTING_MAX:
            raise ScriptUnparsable("it is nested too deeply")
        self.pos = start
        self.depth += 1
        ignored = _WordBuilder()
        try:
            while self.pos < length:
                if match := _IN_ARITHMETIC.match(text, self.pos):
                    self.pos = match.end()
                    continue
                char = text[self.pos]
                if char == ")" and not open_inside:
                    break
                open_inside += (char == "(") - (char == ")")
                if char in "'\"":
                    self.state.add_ambiguity("quotes inside of arithmetic are read differently by different shells")
                if char in "()'\"":
                    self.pos += 1
                else:
                    self._read_expansion(ignored)
            if text.startswith("))", self.pos):
                self.pos += 2
                self.depth = depth
                return True
        except ScriptUnparsable:
            pass  # it may still be a subshell
        self.count_work(self.pos - before)  # this text is read again
        self.pos, self.depth, self.pending, self.outer_pending = before, depth, pending, outer_pending
        del self.state.commands[command_count:]
        del self.state.ambiguities[ambiguity_count:]
        return False

    def skip_newline(self) -> None:
        """Skip the end of a line, and read the here-documents that begin after it."""
        self.pos += 1
        if self.outer_pending:
            raise ScriptUnparsable("a here-document begins in the middle of another command")
        pending, self.pending = self.pending, []
        for redirect, delimiter, quoted, tabs in pending:
            self._read_here_document(redirect, delimiter, quoted, tabs)

    def _read_here_document(self, redirect: Redirection, delimiter: str, quoted: bool, tabs: bool) -> None:
        text, lines, is_continued = self.text, [], False
        while True:
            if self.pos >= len(text):
                raise ScriptUnparsable("a here-document does not end")
            end = text.find("\n", self.pos)
            end = len(text) if end < 0 else end
            line = text[self.pos : end]
            self.pos = min(end + 1, len(text))
            bare = line.lstrip("\t") if tabs else line
            if bare == delimiter and not is_continued:
                break
            is_continued = not quoted and (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
            if is_continued:
                self.state.add_ambiguity("a here-document continues a line over its end")
            lines.append(bare)
        body = "".join(line + "\n" for line in lines)
        value = body if quoted else type(self)(body, self.state, self.depth + 1).read_here_text()
        redirect.word = literal_word(value) if value is not None else UNKNOWN_WORD
