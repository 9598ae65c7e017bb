"""Keyword stemming of short texts, for any language; the only dictionary is a list of stop words. Pure."""

# ruff: noqa: RUF001 (Cyrillic letters that look like Latin ones are what is meant)
from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

CHARS_MAX = 2000
STEMS_MAX = 64
_CACHE_MAX = 50_000
_STEM_CHARS = 6
_WORD_PATTERN = re.compile(r"[^\W_]+")
_UNSPACED_SCRIPTS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_SUFFIXES = ("ing", "ed", "es", "er", "en", "s", "e")

# Stop words of common languages, without accents; for other languages callers weight words by their frequency.
_STOP_WORDS = frozenset(
    _WORD_PATTERN.findall(
        """
        about after again ahead all also am an and another any anything are as at back be because been before being but
        by can cannot continue could did do does doing done don else ever every everything first for from get give go
        going good got great had has have hello help her here hey hi him his how if in into is it its just kindly last
        let like little ll make many may me might more most much must my need new next nice no not now of off ok okay
        on once one only or other our out over perhaps please put re really right same see shall she should show so some
        something soon still sure take tell than thank thanks that the their them then there these they thing things
        this those through time to today together too try two until up us use using ve very want was way we well were
        what when where whether which while who why will wish with within without would yeah yes yet you your yours

        aber alle als also am an auch auf aus bei bin bis bist bitte da damit dann das dass dein deine dem den denn der
        des die dies diese dieser dieses doch dort du durch ein eine einem einen einer eines er es fur gegen gib gut
        hab habe haben hat hatte hier ich ihm ihn ihr im in ist ja jede jetzt kann kannst kein keine konntest machen mal
        man mehr mein meine mich mir mit nach nein nicht noch nun nur oder ohne schon sehr sein seine sich sie sind so
        soll uber um und uns unser unter vom von vor war warum was weil welche wenn wer werden wie wieder will wir wird
        wo wurde zu zum zur danke hallo mach

        ai au aux avec bien bonjour car ce ces cet cette comme dans de des deux donc du elle en encore est et etre fait
        faire ici il ils je la le les leur lui ma mais me merci mes moi mon ne nos notre nous on ont ou oui par pas peux
        plait plus pour pouvez pourquoi quand que quel quelle qui sa salut sans se ses si son sont sur ta te tes toi ton
        tous tout tres tu un une vos votre vous

        al algo aqui asi como con cual cuando de del desde donde el ella ellos en era es esa ese eso esta estan este
        esto favor fue gracias ha hacer hasta hay haz hola la las le les lo los mas me mi mis muy nada no nos o otra
        otro para pero por porque puede puedes que quien quiero se ser si sin sobre son su sus te tiene todo tu un una
        uno unos y ya yo

        ao aos as com da das do dos ele ela em essa esse estou eu foi isso isto ja mais mas meu minha na nao nas nem nos
        num obrigado ola os ou pela pelo pode por qual quando que sao se sem seu sua tambem tem um uma voce

        che chi ci come cosa cui da dal degli dei del della delle di dove e ed gli ha ho il io lei lo loro lui ma mi mia
        mio ne nel nella non per perche piu puoi quale quando quello questa questo sei si sia sono su sul tra un una vi
        ciao grazie prego

        aan als bij dan dat de deze die dit dus een en er ga geen haar had heb hebben heeft het hij hoe ik in is je jij
        kan kun maar me meer met mijn naar niet nog nu of om ons ook op over te toch tot uit van voor waar was wat we
        wel wij worden zich zijn zo dank hoi

        dla jak jest juz mnie moze nie oraz prosze przez sie tak ten tego tylko teraz czy dzieki czesc

        без бы был все вот да для до его если есть за из или как мне можно на не нет но от по при привет пожалуиста
        спасибо так то что это я
        """
    )
)


def stem_words(text: str, *, chars_max: int = CHARS_MAX, stems_max: int = STEMS_MAX) -> Iterator[str]:
    """Yield the stems of a text's keywords. Scripts without spaces (Chinese, Japanese, Thai …) give character pairs."""
    text = text[:chars_max].casefold()
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
        text = unicodedata.normalize("NFC", text)
    count = 0
    for word in _WORD_PATTERN.findall(text):
        for stem in (_stem(word),) if word.isascii() else _split_scripts(word):
            if stem:
                yield stem
                count += 1
        if count >= stems_max:
            return


def _split_scripts(word: str) -> Iterator[str]:
    for run in _UNSPACED_SCRIPTS.findall(word):
        yield from (run[start : start + 2] for start in range(max(1, len(run) - 1)))
    for rest in _UNSPACED_SCRIPTS.sub(" ", word).split():
        yield _stem(rest)


@lru_cache(_CACHE_MAX)
def _stem(word: str) -> str:
    """Return a word's stem; empty for stop words, single letters and numbers, which differ between similar requests."""
    if len(word) < 2 or word.isdecimal() or word in _STOP_WORDS:
        return ""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            break
    if len(word) > 3 and word[-1] == word[-2]:  # running, run
        word = word[:-1]
    return word[:_STEM_CHARS]
