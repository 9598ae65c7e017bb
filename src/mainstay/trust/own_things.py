"""Evidence for destinations among the user's own things: a list of theirs, the name of a new thing, a search in words
of the request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainstay.trust.named_destinations import is_name_begun
from mainstay.trust.request_vocabulary import can_name, read_words, split_words
from mainstay.trust.requested_actions import (
    STRICT_ACTIONS,
    find_tool_action,
    iterate_requests,
    split_tool_name,
    words_of,
)
from mainstay.trust.seen_content import SeenContent, iterate_names
from mainstay.trust.tool_invocation import ToolInvocation
from mainstay.trust.user_statements import is_negated

_PHRASE_WORDS_MIN = 2
_QUERY_WORDS_MAX = 12
_OWN_THINGS = split_words("todo todos task tasks reminder reminders note notes bookmark cart basket shopping")
_NEW_NAME = re.compile(r"(?:^|_)(?:name|title|label|subject)$", re.IGNORECASE)
_OWN_FOLDERS = split_words("archive inbox trash spam junk drafts sent starred important archiv papierkorb entwürfe")
_OWN_ENTRY = read_words("own_things_own_entry")
CHOICES = split_words("folder label labels status state category priority list section column mailbox")


class OwnThingsEvidence:
    """The evidence for one call. `texts` is what the user wrote in this turn."""

    def __init__(self, call: ToolInvocation, seen: SeenContent, texts: Sequence[str]) -> None:
        self._call = call
        self._seen = seen
        self._texts = texts
        self._parameters = () if isinstance(call.tool.sink, bool) else tuple(call.tool.sink)

    def supports(self, destination: str, *, follows_links: bool) -> bool:
        return (
            self._is_own_list(destination)
            or self._is_new_name(destination)
            or self._is_begun_name(destination)
            or self._is_own_folder(destination)
            or (follows_links and self._is_search_in_own_words(destination))
        )

    def _is_own_list(self, destination: str) -> bool:
        """Return True for a list of the user's own that the user did not name, if the user asked for an entry in such a
        list (`put it in my todos`) and this is one of the lists that the service has."""
        name = self._call.tool.name
        if find_tool_action(name) != "create" or _OWN_THINGS.isdisjoint(split_tool_name(name)):
            return False
        arguments = self._call.arguments_by_name
        if not any(
            arguments.get(parameter) == destination and not CHOICES.isdisjoint(words_of(parameter))
            for parameter in self._parameters
        ):
            return False
        if not re.fullmatch(r"[^\W\d_]{2,20}(?: [^\W\d_]{2,20})?", destination):
            return False
        is_asked = any(
            clause.start < clause.end and not _OWN_ENTRY.isdisjoint(words_of(clause.text[clause.start : clause.end]))
            for family in ("create", "send")
            for clause in iterate_requests(family, self._texts)
        )
        return is_asked and not any(
            result.tool is self._call.tool and result.is_own_action for result in self._seen.results
        )

    def _is_new_name(self, destination: str) -> bool:
        """Return True for the name of a new thing that is a phrase of the request, of two words or more."""
        if find_tool_action(self._call.tool.name) != "create" or len(words_of(destination)) < _PHRASE_WORDS_MIN:
            return False
        arguments = self._call.arguments_by_name
        if not any(arguments.get(name) == destination for name in self._parameters if _NEW_NAME.search(name)):
            return False
        phrase = " ".join(words_of(destination))
        return all(can_name(word) for word in phrase.split()) and any(
            f" {phrase} " in f" {' '.join(words_of(clause.text[clause.start : clause.end]))} "
            for clause in iterate_requests("create", self._texts)
        )

    def _is_search_in_own_words(self, destination: str) -> bool:
        """Return True for a query that has only words of this request, in their order: it tells nothing else."""
        words = words_of(destination)
        if not words or len(words) > _QUERY_WORDS_MAX or re.search(r"[/@:?&=%]|\w\.\w", destination):
            return False
        for text in self._texts:
            said = iter(words_of(text))
            if all(word in said for word in words):
                return True
        return False

    def _is_begun_name(self, destination: str) -> bool:
        """Return True for the only known name that begins as the user wrote."""
        if find_tool_action(self._call.tool.name) in STRICT_ACTIONS or not is_name_begun(destination, self._texts):
            return False
        known = {text for result in self._seen.results for text in iterate_names(result)}
        return destination in known and sum(is_name_begun(name, self._texts) for name in known) == 1

    def _is_own_folder(self, destination: str) -> bool:
        """Return True for a folder that every mailbox has, if the user wrote it."""
        return destination.casefold() in _OWN_FOLDERS and any(
            destination.casefold() in words_of(text) and not is_negated_word(destination, self._texts)
            for text in self._texts
        )


def is_negated_word(word: str, texts: Sequence[str]) -> bool:
    """Return True if a text leaves out what this word names."""
    return any(
        is_negated(text, *found.span())
        for text in texts
        for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
    )
