"""Evidence that the user asked for a call without a destination: `create an event "Lunch"`, `put it in a note`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set

from mainstay.core.tool_ports import has_third_party_text
from mainstay.trust.record_names import stem_of
from mainstay.trust.request_vocabulary import ORDINARY, can_name
from mainstay.trust.requested_actions import (
    STRICT_ACTIONS,
    find_dates,
    find_tool_action,
    iterate_requests,
    own_nouns,
    tool_nouns,
    words_of,
)
from mainstay.trust.seen_content import SeenContent
from mainstay.trust.stated_values import find_times
from mainstay.trust.tool_invocation import ToolInvocation, iterate_texts

_STEM_LETTERS = 5
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ARGUMENT_CHARS_MAX = 60  # a longer first text of a call is content, which users do not dictate


class ActionEvidence:
    """The evidence for one call. `texts` is what the user wrote in this turn, `last_texts` in the one before."""

    def __init__(
        self, call: ToolInvocation, seen: SeenContent, texts: Sequence[str], last_texts: Sequence[str]
    ) -> None:
        self._call = call
        self._seen = seen
        self._texts = texts
        self._last_texts = last_texts

    def supports(self, is_named_id: Callable[[str], bool]) -> bool:
        """Return True if the user asked for this action in the words of its arguments. `is_named_id`: a value is the id
        of a record that the request names."""
        call = self._call
        if has_third_party_text(call.tool) or not self._texts:
            return False
        if find_tool_action(call.tool.name) in STRICT_ACTIONS:
            return False
        said = {word for text in (*self._texts, *self._last_texts) for word in words_of(text)}
        if self._creates_requested_thing():
            return True
        values = [value for value in call.arguments_by_name.values() if value is not None]
        texts = [value for value in values if isinstance(value, str) and value.strip()]
        if texts:
            stems = {word[:_STEM_LETTERS] for word in said}
            short = [text for text in texts if len(text) <= _ARGUMENT_CHARS_MAX]
            if len(texts) == 1 and is_named_id(texts[0]):
                return True  # `make a public link for the mockups`
            if find_tool_action(call.tool.name) == "change" and not all(map(self._is_said_literally, texts)):
                return False
            if self._is_stated_appointment(texts):
                return True
            return texts[0] in short and _is_mostly_said(texts[0], stems)
        if tool_nouns(call.tool.name).isdisjoint(said):
            return False
        return all(word in said for text in iterate_texts(values) for word in words_of(text))

    def _is_said_literally(self, value: str) -> bool:
        """Return True unless a value of one word, a password or a state, is not in the user's texts. Dates are compared
        with those that the user stated."""
        if _ISO_DATE.match(value):
            return True
        said = " ".join((*self._texts, *self._last_texts)).casefold()
        return " " in value.strip() or value.strip().casefold() in said

    def _is_stated_appointment(self, texts: Sequence[str]) -> bool:
        """Return True for an appointment of the user's own on a day and at a time that the user stated, with a word of
        the user in its title."""
        if find_tool_action(self._call.tool.name) != "create" or "event" not in own_nouns(self._call.tool.name):
            return False
        starts = [text for text in texts if _ISO_DATE.match(text)]
        said = "\n".join(self._texts)
        return (
            bool(starts)
            and find_dates(starts[0]) <= find_dates(said)
            and starts[0][11:16] in find_times(said)
            and not {stem_of(word) for word in words_of(texts[0]) if can_name(word)}.isdisjoint(
                stem_of(word) for word in words_of(said)
            )
        )

    def _creates_requested_thing(self) -> bool:
        """Return True for the first thing of its kind in a turn in which the user asked for one: `put it in a note`."""
        tool = self._call.tool
        nouns = own_nouns(tool.name)
        if find_tool_action(tool.name) != "create" or "event" in nouns:
            return False
        clauses = (*iterate_requests("create", self._texts), *iterate_requests("change", self._texts))
        if not any(not nouns.isdisjoint(words_of(one.text[one.start : one.end])) for one in clauses):
            return False
        return not any(result.tool is tool and result.is_own_action for result in self._seen.results)


def _is_mostly_said(text: str, stems: Set[str]) -> bool:
    """Return True if at least half of the words of a text, dates and numbers apart, are the user's."""
    all_words = [word for word in words_of(text) if not word.isdecimal()]
    words = [word[:_STEM_LETTERS] for word in all_words if word not in ORDINARY]
    if not words:
        return bool(all_words) and all(word[:_STEM_LETTERS] in stems for word in all_words)
    return 0 < len(words) <= 2 * sum(word in stems for word in words)
