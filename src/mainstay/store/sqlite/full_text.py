"""Prepares text for the full-text index (FTS5) and builds its queries: Unicode, unspaced scripts, stop words.

The index splits text at everything that is neither letter nor digit, folds case and accents, and stems English
(`TOKENIZER`). Scripts without spaces between words are indexed as pairs of characters, so that any part of a sentence
can be found. A query is quoted terms joined by OR: the user's text is never parsed as query syntax.
"""

# ruff: noqa: RUF001 (the Cyrillic letters that look like Latin ones are intended)
from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

TOKENIZER = "porter unicode61 remove_diacritics 2"
NORMALISED_CHARS = 1_000  # normalised at once
INDEXED_CHARS_MAX = 120_000  # of one message: three quarters from its beginning, one from its end
QUERY_CHARS_MAX = 16_000  # of a query, likewise
TERMS_MAX = 16
TERM_CHARS_MAX = 64  # longer strings are not words that users search for

# Scripts without spaces, and Hangul, whose words are long compared with the part that users search for.
_UNSPACED_SCRIPTS = (
    "\u0e01-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"  # kana
    "\u3105-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # bopomofo, Han
    "\uac00-\ud7a3"  # Hangul
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED_SCRIPTS}]+")
_WORD = re.compile(r"[^\W_]+")
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{60,}")  # base64 and the like; lines of PEM have 64
_LONG_WORD = re.compile(r"[^\W_]{65,}")
_HEX = re.compile(r"[0-9A-Fa-f]{1,64}")
_ALPHANUMERIC_RUN = re.compile(r"[A-Za-z0-9]{14,}")
_HIRAGANA_PAIR = re.compile("[\u3041-\u309f]{2}")  # two hiragana are mostly grammar


def to_index_text(text: str) -> str:
    """Return the text as it is passed to the index: bounded, without blobs, unspaced scripts as pairs."""
    text = _cut_middle(text, INDEXED_CHARS_MAX)
    text = _BLOB.sub(_drop_blob, text)
    if not text.isascii():
        text = _UNSPACED_RUN.sub(_replace_by_pairs, _normalise(text))
    return _LONG_WORD.sub(" ", text).replace("\0", " ")


def build_match_query(text: str) -> str:
    """Return a MATCH expression for messages similar to this text; empty if it contains no words."""
    return " OR ".join(f'"{term[:-1]}"*' if term.endswith("*") else f'"{term}"' for term in extract_terms(text))


def extract_terms(text: str) -> list[str]:
    """Return the search terms of a text, in its order and without stop words. A term that ends in * is a prefix."""
    text = _cut_middle(text, QUERY_CHARS_MAX)
    distinct = dict.fromkeys(_split_words(text if text.isascii() else _normalise(text)))
    words = [word for word in distinct if len(word) <= TERM_CHARS_MAX]
    candidates = [word for word in words if len(word) > 1 or not word.isascii() or word.isdecimal()]
    stop_words = _select_stop_words(candidates)
    selected = [word for word in candidates if word.lower() not in stop_words] or candidates or words
    if len(selected) > TERMS_MAX:
        best = set(sorted(selected, key=_term_weight, reverse=True)[:TERMS_MAX])  # stable: of equals, the earlier
        selected = [word for word in selected if word in best]
    return selected


def _split_words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match[0]
        if word.isascii():
            yield word
            continue
        last = 0
        for run in _UNSPACED_RUN.finditer(word):
            if run.start() > last:
                yield word[last : run.start()]
            last = run.end()
            yield from _character_pairs(run[0]) if len(run[0]) > 1 else (run[0] + "*",)
        if last < len(word):
            yield word[last:]


def _character_pairs(run: str) -> Iterable[str]:
    return (run[i : i + 2] for i in range(len(run) - 1))


def _replace_by_pairs(match: re.Match[str]) -> str:
    """Replace a run by its pairs and its last character alone, so that a prefix query finds any single character."""
    run = match[0]
    return f" {' '.join(_character_pairs(run))} {run[-1]} "


def _normalise(text: str) -> str:
    """Normalise Unicode (NFKC) and remove lone surrogates and combining marks, at which the index would split words."""
    if text.isascii():
        return text
    text = text.encode("utf-8", "ignore").decode()
    # in pieces: the time for ordering consecutive combining marks grows with the square of their number
    pieces = (text[at : at + NORMALISED_CHARS] for at in range(0, len(text), NORMALISED_CHARS))
    text = "".join([unicodedata.normalize("NFKC", piece) for piece in pieces])
    return "".join([char for char in text if char.isascii() or unicodedata.category(char)[0] != "M"])


def _drop_blob(match: re.Match[str]) -> str:
    """Remove a long run of characters, unless it is made of words (a path, a slug) or is a digest."""
    run = match[0]
    if _HEX.fullmatch(run):
        return run
    return " " if sum(len(piece) for piece in _ALPHANUMERIC_RUN.findall(run)) * 2 > len(run) else run


def _cut_middle(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    return text[: chars_max * 3 // 4] + " " + text[-(chars_max // 4) :]


def _term_weight(word: str) -> tuple[int, int]:
    """Return how specific a word seems: names and numbers before long words before short ones."""
    if _HIRAGANA_PAIR.fullmatch(word):
        return (0, 0)
    is_specific = not word.islower() or any(char.isdigit() for char in word)
    return (1 + (is_specific and len(word) > 1), min(len(word), 12) if word.isascii() else 12)


def _select_stop_words(words: list[str]) -> frozenset[str]:
    """Return the stop words of the language with the most matches; one language's stop word (die, war, son) can be a
    significant word in another."""
    lowered = {word.lower() for word in words}
    return max(STOP_WORDS.values(), key=lambda stop_words: len(stop_words & lowered))  # English if equal


_STOP_WORD_LISTS = {
    "en": (
        "a about after again all also am an and any are aren as at be because been before being both but by can could"
        " couldn did didn do does doesn doing don done down during each else ever few for from further get got had"
        " hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its"
        " itself just ll me more most much must my myself no nor not now of off on once only or other our ours"
        " ourselves out over own please re s same she should shouldn so some such t than that the their theirs them"
        " themselves then there these they this those through to too under until up upon us ve very was wasn we were"
        " weren what when where which while who whom whose why will with won would wouldn you your yours yourself"
        " yourselves"
    ),
    "de": (
        "aber alle als also am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den denn der"
        " des dessen dich die dir doch dort du durch ein eine einem einen einer eines er es euch euer für fur gegen"
        " hab habe haben hat hatte hatten hier ihm ihn ihnen ihr ihre im in ist ja jede jeder kann kein keine können"
        " konnen man mein meine mich mir mit muss nach nicht noch nun nur ob oder ohne schon sein seine sich sie sind"
        " so soll über uber um und uns unser unter vom von vor wann war waren warum was weil welche welcher wenn wer"
        " werden wie wieder will wir wird wo worden wurde zu zum zur"
    ),
    "fr": (
        "a ai as au aux avec avez avoir avons c ce ces cet cette ceux chez comme comment d dans de des donc dont du"
        " elle elles en est et étaient était etait été ete être etre eu faire fait ici il ils j je l la là le les leur"
        " leurs lui m ma mais me même meme mes moi mon n ne nos notre nous on ont où ou par pas pendant plus pour"
        " pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se ses si son sont sur t ta te tes toi"
        " ton très tres tu un une vos votre vous y"
    ),
    "es": (
        "a al algo ante antes aquí aqui como cómo con cual cuál cuando cuándo de del desde donde dónde dos el él ella"
        " ellas ellos en entre era es esa ese eso esta está están estaba este esto estoy fue ha había habia han hasta"
        " hay he la las le les lo los más mas me mi mis mucho muy ni no nos nosotros o os otra otro para pero por"
        " porque qué que quién quien se ser si sí sin sobre son soy su sus también tambien te tengo ti tiene todo tu"
        " tus un una uno y ya yo"
    ),
    "it": (
        "a agli ai al alla alle anche avere aveva c che chi ci come con cosa cui da dagli dai dal dalla dei del della"
        " delle dello di dove e è ed era gli ha hai hanno ho i il in io la le lei li lo loro lui ma mi mia mio ne nel"
        " nella non noi nostro o per perché perche più piu quale quando quanto quello questa questo se sei si sia sono"
        " su sua sul sulla suo ti tra tu tuo un una uno vi voi"
    ),
    "pt": (
        "a à ao aos as às até ate com como da das de dela dele depois do dos e é ela elas ele eles em entre era essa"
        " esse esta está este eu foi há isso isto já ja lhe mais mas me mesmo meu meus minha muito na não nao nas nem"
        " no nos nós o onde os ou para pela pelo por porque quais qual quando que quem se sem ser seu sua são sao"
        " também tambem te tem tenho um uma você voce"
    ),
    "nl": (
        "aan af al alles als ben bij daar dan dat de den der deze die dit doch doen door dus een en er ge geen had heb"
        " heeft hem het hier hij hoe hun ik in is ja je kan kon maar me meer men met mij mijn moet na naar niet nog nu"
        " of om omdat onder ons ook op over te tegen toch toen tot u uit van veel voor waar wanneer want waren was wat"
        " we wel werd wie wij wil worden wordt zal ze zelf zich zij zijn zo zonder zou"
    ),
    "ru": (
        "а без бы был была были было быть в вам вас ведь во вот все вы где да даже для до его ее ей если есть еще же за"
        " и из или им их к как какой когда кто ли мне мой моя мы на над нас наш не него нее нет ни них но о об он она"
        " они оно от очень по под почему при про с со так там тебя то тоже только ты у уже что чтобы это этот я"
    ),
}

STOP_WORDS = {language: frozenset(words.split()) for language, words in _STOP_WORD_LISTS.items()}
