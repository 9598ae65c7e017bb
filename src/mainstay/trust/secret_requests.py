"""Whether a user's words ask for something secret: a password, a code, a link to log in, by language."""

# ruff: noqa: RUF001 -- words of languages with other letters

from __future__ import annotations

import re
from collections.abc import Iterable

from mainstay.trust.user_statements import is_negated

# Nouns of what is secret, with their endings and as the last part of a compound (Bestätigungslink). "key" and "code"
# have other meanings, too: an answer on the person's own channel may then show a secret that was not wanted.
_SECRET_WORDS = re.compile(
    r"\b\w{0,40}(?:pass(?:word|code|phrase|key)|credential|token|secret|link|login|log-in|code|key)s?\b"
    r"|\b(?:log ?in|sign[ -]?in|urls?|pins?|otp|2fa|mfa|tans?|one[ -]time)\b"
    r"|\b\w{0,40}(?:passw(?:o|ö)rt(?:e|er|s)?|kennw(?:o|ö)rt(?:e|er|s)?|schl(?:ü|ue)ssel[ns]?|geheimnis(?:se)?"
    r"|zugangsdaten|anmeldedaten)\b"
    r"|\b(?:mots? de passe|cl(?:é|e)s?|clefs?|liens?|jetons?|identifiants?|connexion)\b"
    r"|\b(?:contrase(?:ñ|n)as?|claves?|c(?:ó|o)digos?|enlaces?|v(?:í|i)nculos?|credencial(?:es)?|acceso)\b"
    r"|\b(?:codic[ei]|chiav[ei]|collegament[oi]|credenzial[ei]|accesso|parola d['\u2019]ordine)\b"
    r"|\b(?:senhas?|palavras?-passe|chaves?|liga(?:ção|ções)|credenciais|acesso)\b"
    r"|\b\w{0,40}(?:wachtwoord(?:en)?|sleutels?|inloggegevens|koppeling(?:en)?)\b"
    r"|\b(?:has(?:ł|l)(?:o|a|em|ami)|kod(?:u|y|em)?|klucz(?:a|e|em)?|linki?|odno(?:ś|s)nik(?:i)?|tokeny?|logowani[ae])\b"
    r"|\b(?:(?:ş|s)ifre|parola|kod|anahtar|ba(?:ğ|g)lant(?:ı|i)|jeton|giri(?:ş|s))\w{0,8}\b"
    r"|\b(?:парол|код|ключ|ссылк|токен|логин|вход)\w{0,4}\b"
    r"|密码|密碼|口令|验证码|驗證碼|代码|链接|連結|令牌|密钥|密鑰|登录|登入|凭证"
    r"|パスワード|暗証番号|コード|リンク|トークン|鍵|キー|ログイン"
    r"|비밀번호|암호|코드|링크|토큰|로그인|인증"
    r"|كلمة المرور|كلمة السر|رمز|رابط|مفتاح|تسجيل الدخول"
    r"|पासवर्ड|कोड|लिंक|टोकन|कुंजी|लॉगिन",
    re.IGNORECASE,
)
TEXT_CHARS_MAX = 64 * 1024  # of one text; a longer one is not a request


def asks_for_secret(texts: Iterable[str]) -> bool:
    """Return True if one of these texts, which a user typed, names something secret and does not say "not"."""
    for text in texts:
        if len(text) <= TEXT_CHARS_MAX:
            for found in _SECRET_WORDS.finditer(text):
                if not is_negated(text, found.start(), found.end()):
                    return True
    return False
