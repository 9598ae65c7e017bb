"""Links that a call which only reads may follow although the user did not write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainstay.trust.named_destinations import contains_link, count_links
from mainstay.trust.record_names import stem_of
from mainstay.trust.request_vocabulary import can_name, split_words
from mainstay.trust.requested_actions import words_of
from mainstay.trust.seen_content import SeenContent

_LINKS_MAX = 20  # of a result in which links may be followed; among more of them a choice would tell something
_PLAIN_LINK = re.compile(r"[\w:/.~-]{1,120}")
_LINK_STEMS = frozenset(
    stem_of(word)
    for word in split_words(
        "link url online internet docs documentation wiki website site web webpage page article blog newsletter form"
        " news homepage proof manual"
        " seite webseite artikel formular verweis lien page formulaire enlace página artículo formulario"
        " sitio sito pagina modulo"
    )
)


def may_follow_link(destination: str, seen: SeenContent, texts: Sequence[str]) -> bool:
    """Return True for a link in public content while nothing private was read, and for one that the request is about.
    Later, whether a public link is followed could tell something private."""
    is_public = not seen.reader_sets and any(contains_link(destination, one.content) for one in seen.public_results)
    return is_public or _is_link_in_request(destination, seen, texts)


def _is_link_in_request(destination: str, seen: SeenContent, texts: Sequence[str]) -> bool:
    """Return True for the link in a short text of a record that the request is about, if it speaks of a page (`the
    article that Bob posted`), and for the address of a search result that it is about. The link stands there letter by
    letter, among few others and without a query, so that following it tells little."""
    if not _PLAIN_LINK.fullmatch(destination):
        return False
    said = {stem_of(word) for text in texts for word in words_of(text) if can_name(word)}
    asks_for_pages = not said.isdisjoint(_LINK_STEMS)
    topic = said - _LINK_STEMS
    for record, result in seen.records():
        if not any(contains_link(destination, text) for text in record.texts):
            continue
        if count_links(result.content) > _LINKS_MAX:
            return False
        shared = topic & {stem_of(word) for text in record.texts for word in words_of(text)}
        if (shared and asks_for_pages) or (len(shared) >= 2 and destination in record.fields.values()):
            return True
    return False
