"""Formats of API keys and tokens whose prefix names their issuer.

A prefix and the length of the issuer's tokens are enough: a check for randomness would let some real tokens through.
Only a value that cannot be one is left, such as a row of x. Prefixes that are also words have a check of their own.
"""

from __future__ import annotations

from mainstay.guards.redaction_pattern_compiler import (
    ALNUM,
    DASHED,
    DIGIT,
    HEX,
    WORD,
    RedactionPattern,
    build_pattern,
    one_of,
)
from mainstay.guards.secret_checks import is_json_web_token, is_jumbled, is_no_filler

_HEX_ANY = "[A-Fa-f0-9]"
_UPPER = "[A-Z0-9]"
_BASE64 = "[A-Za-z0-9+/=]"
_LOWER = "[a-z0-9]"

# name; prefixes; characters of the rest; its least and greatest length
_PREFIXED: tuple[tuple[str, str, str, int, int], ...] = (
    ("github token", "ghp_ gho_ ghu_ ghs_ ghr_", ALNUM, 36, 255),
    ("github token", "github_pat_", WORD, 40, 255),
    (
        "gitlab token",
        "glpat- gldt- glft- glrt- glrtr- glsoat- glcbt- glptt- glagent- glimt- glffct- gloas- glwt-",
        "[A-Za-z0-9_.-]",
        20,
        255,
    ),
    ("slack token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xoxd-", "[A-Za-z0-9_%-]", 11, 300),
    ("slack token", "xoxe.xoxb- xoxe.xoxp-", DASHED, 20, 300),
    ("slack token", "xapp-", DASHED, 20, 300),
    ("stripe key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ pk_live_ pk_test_", ALNUM, 10, 250),
    ("stripe webhook secret", "whsec_", "[A-Za-z0-9+/=]", 24, 100),
    ("anthropic key", "sk-ant-", DASHED, 32, 250),
    ("openai key", "sk-proj- sk-svcacct- sk-admin- sk-service-", DASHED, 20, 250),
    ("openrouter key", "sk-or-v1-", HEX, 64, 64),
    ("langfuse key", "sk-lf-", DASHED, 30, 60),
    ("google key", "AIza", DASHED, 35, 35),
    ("google token", "ya29.", DASHED, 30, 1000),
    ("google client secret", "GOCSPX-", DASHED, 28, 28),
    ("google refresh token", "1//0", DASHED, 40, 200),
    ("hugging face token", "hf_", ALNUM, 34, 38),
    ("npm token", "npm_", ALNUM, 36, 36),
    ("pypi token", "pypi-Ag", DASHED, 50, 1000),
    ("twilio key", "SK", _HEX_ANY, 32, 32),
    ("mailgun key", "key-", HEX, 32, 32),
    ("mailgun key", "key-", DASHED, 36, 36),
    ("age key", "AGE-SECRET-KEY-1", "[0-9A-Z]", 50, 60),
    ("digitalocean token", "doo_v1_ dop_v1_ dor_v1_", HEX, 64, 64),
    ("shopify token", "shpat_ shpca_ shppa_ shpss_ shpua_ shptka_", _HEX_ANY, 32, 40),
    ("square token", "sq0atp- sq0csp- sq0idp- sq0ids- sq0idb-", DASHED, 22, 60),
    ("square token", "EAAA", DASHED, 60, 60),
    ("facebook token", "EAAM EAAC EAAG", ALNUM, 80, 400),
    ("databricks token", "dapi", "[a-f0-9-]", 32, 36),
    ("vault token", "hvs. hvb. hvr.", DASHED, 24, 300),
    ("doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "[A-Za-z0-9_.-]", 40, 80),
    ("linear key", "lin_api_ lin_oauth_", ALNUM, 32, 64),
    ("notion token", "ntn_", ALNUM, 40, 64),
    ("notion token", "secret_", ALNUM, 43, 43),
    ("atlassian token", "ATATT3 ATCTT3 ATBB ATSTT3", "[A-Za-z0-9_=-]", 28, 300),
    ("grafana token", "glc_", _BASE64, 32, 400),
    ("grafana token", "eyJrIjoi", "[A-Za-z0-9+/=]", 70, 400),
    ("new relic key", "NRAK- NRRA- NRAL- NRSP-", "[A-Za-z0-9]", 27, 42),
    ("new relic key", "NRII- NRIQ-", DASHED, 32, 64),
    ("new relic key", "NRJS-", HEX, 19, 19),
    ("groq key", "gsk_", ALNUM, 40, 64),
    ("replicate token", "r8_", ALNUM, 37, 40),
    ("perplexity key", "pplx-", ALNUM, 40, 64),
    ("xai key", "xai-", ALNUM, 60, 90),
    ("fly token", "fo1_ fm1a_ fm1r_ fm2_", "[A-Za-z0-9_+/=-]", 30, 2000),
    ("netlify token", "nfp_ nfc_ nfu_ nfo_", ALNUM, 36, 64),
    ("sentry token", "sntrys_ sntryu_", "[A-Za-z0-9+/=_-]", 40, 400),
    ("planetscale token", "pscale_tkn_ pscale_oauth_ pscale_pw_ pscale_otkn_", "[A-Za-z0-9_=.-]", 30, 64),
    ("supabase key", "sbp_ sb_secret_ sbs_", DASHED, 30, 80),
    ("figma token", "figd_ figo_", DASHED, 36, 60),
    ("docker token", "dckr_pat_ dckr_oat_", DASHED, 24, 64),
    ("rubygems key", "rubygems_", HEX, 48, 48),
    ("pulumi token", "pul-", HEX, 40, 40),
    ("nvidia key", "nvapi-", DASHED, 60, 80),
    ("cerebras key", "csk-", ALNUM, 40, 64),
    ("tavily key", "tvly-", DASHED, 32, 60),
    ("pinecone key", "pcsk_", WORD, 60, 90),
    ("langsmith key", "lsv2_pt_ lsv2_sk_", WORD, 32, 60),
    ("brevo key", "xkeysib- xsmtpsib-", DASHED, 60, 90),
    ("contentful token", "CFPAT-", DASHED, 43, 43),
    ("circleci token", "CCIPAT_ CCIPRJ_", "[A-Za-z0-9_]", 40, 80),
    ("clojars token", "CLOJARS_", "[A-Za-z0-9]", 60, 60),
    ("buildkite token", "bkua_", HEX, 40, 40),
    ("sonar token", "sqp_ squ_ sqa_", HEX, 40, 40),
    ("sourcegraph token", "sgp_ slk_", "[A-Za-z0-9_]", 40, 80),
    ("tailscale key", "tskey-", DASHED, 20, 90),
    ("typeform token", "tfp_", "[A-Za-z0-9_.=-]", 40, 64),
    ("readme key", "rdme_", _LOWER, 70, 70),
    ("shippo token", "shippo_live_ shippo_test_", HEX, 40, 40),
    ("easypost key", "EZAK EZTK", ALNUM, 54, 54),
    ("duffel token", "duffel_live_ duffel_test_", "[A-Za-z0-9_=-]", 43, 43),
    ("flutterwave key", "FLWSECK_TEST- FLWSECK- FLWPUBK_TEST-", "[A-Za-z0-9-]", 12, 48),
    ("frame.io token", "fio-u-", "[A-Za-z0-9_=-]", 64, 64),
    ("heroku key", "HRKU-", DASHED, 36, 64),
    ("hubspot token", "pat-na1- pat-eu1- pat-na2-", "[A-Fa-f0-9-]", 36, 36),
    ("infracost key", "ico-", ALNUM, 32, 32),
    ("alibaba key id", "LTAI", ALNUM, 12, 26),
    ("lob key", "live_ test_", HEX, 35, 35),
    ("mapbox token", "sk.eyJ pk.eyJ", "[A-Za-z0-9_.-]", 60, 120),
    ("nuget key", "oy2", _LOWER, 43, 43),
    ("prefect key", "pnu_ pnb_", _LOWER, 36, 36),
    ("razorpay key", "rzp_live_ rzp_test_", ALNUM, 14, 24),
    ("settlemint token", "sm_pat_ sm_aat_ sm_sat_", ALNUM, 16, 16),
    ("artifactory key", "AKCp", ALNUM, 60, 75),
    ("artifactory token", "cmVmd", ALNUM, 59, 59),
    ("1password key", "A3-", "[A-Z0-9-]", 34, 38),
    ("1password token", "ops_eyJ", _BASE64, 200, 4000),
    ("bedrock key", "ABSK", _BASE64, 100, 280),
    ("bedrock key", "bedrock-api-key-", _BASE64, 20, 2000),
    ("cloudflare origin key", "v1.0-", "[a-f0-9-]", 120, 200),
    ("databento key", "db-", ALNUM, 29, 29),
    ("defined networking token", "dnkey-", "[a-z0-9=_-]", 60, 100),
    ("dropbox token", "sl.", "[A-Za-z0-9_=-]", 130, 300),
    ("harness token", "pat. sat.", "[A-Za-z0-9_.-]", 60, 90),
    ("intra42 secret", "s-s4t2ud- s-s4t2af-", HEX, 64, 64),
    ("neon key", "napi_", ALNUM, 60, 70),
    ("octopus key", "API-", _UPPER, 26, 26),
    ("openshift token", "sha256~", DASHED, 43, 43),
    ("sendgrid key", "SG.", "[A-Za-z0-9_.-]", 60, 80),
    ("telnyx key", "KEY0", DASHED, 50, 60),
    ("yandex key", "AQVN YCAJ y0_", DASHED, 34, 400),
    ("postman key", "PMAK-", "[a-f0-9-]", 59, 59),
    ("wakatime key", "waka_", "[a-f0-9-]", 36, 36),
)

# Patterns of more than a prefix and a run of characters, and prefixes that are also words.
_COMPOSED: tuple[RedactionPattern, ...] = (
    build_pattern("aws key id", "A", one_of("KSBC"), one_of("IC"), "A", (_UPPER, 16, 16), check=is_no_filler),
    build_pattern("mainstay key", "ms_", (_LOWER, 12, 12), "_", (ALNUM, 40, 40)),
    build_pattern("slack webhook", "hooks.slack.com/", ("[a-z]", 4, 12), "/", ("[A-Za-z0-9/_]", 30, 120), keep=3),
    build_pattern(
        "discord webhook", "discord", ("[a-z.]", 4, 8), "/api/webhooks/", (DIGIT, 15, 22), "/", (DASHED, 50, 90), keep=5
    ),
    build_pattern("sendgrid key", "SG.", (DASHED, 16, 32), ".", (DASHED, 30, 64), check=is_no_filler),
    build_pattern("telegram bot token", (DIGIT, 8, 10), ":A", (DASHED, 33, 36), check=is_no_filler),
    build_pattern("telegram bot token", "bot", (DIGIT, 8, 10), ":A", (DASHED, 33, 36), keep=1, check=is_no_filler),
    build_pattern(
        "discord token",
        one_of("MNO"),
        one_of("DTjz"),
        one_of("AEIMQUYcgk"),
        ("[0-5w-z]", 1, 1),
        *((DASHED, 18, 26), ".", (DASHED, 6, 7), ".", (DASHED, 25, 45)),
    ),
    build_pattern(
        "json web token",
        *("eyJ", (DASHED, 10, 4096), ".", (DASHED, 10, 8192), ".", (DASHED, 10, 2048)),
        check=is_json_web_token,
    ),
    build_pattern("grafana token", "glsa_", (ALNUM, 32, 32), "_", (_HEX_ANY, 8, 8), check=is_no_filler),
    build_pattern("render key", "rnd_", (ALNUM, 24, 40), check=is_jumbled),
    build_pattern("airtable token", "pat", (ALNUM, 14, 14), ".", (HEX, 64, 64)),
    build_pattern(
        "dynatrace token", "dt0", ("[a-z]", 1, 1), (DIGIT, 2, 2), ".", (_UPPER, 24, 24), ".", (_UPPER, 64, 64)
    ),
    build_pattern("authress key", "sc_", (_LOWER, 5, 30), ".", (_LOWER, 4, 6), ".acc", ("[A-Za-z0-9+/_=.-]", 40, 160)),
)

FORMAT_PATTERNS: tuple[RedactionPattern, ...] = (
    *_COMPOSED,
    *(
        build_pattern(name, prefix, (characters, least, most), check=is_no_filler)
        for name, prefixes, characters, least, most in _PREFIXED
        for prefix in prefixes.split()
    ),
    build_pattern("api key", "sk-", (ALNUM, 32, 250), check=is_no_filler),
    build_pattern("api key", "sk-", (DASHED, 20, 250), check=is_jumbled),
)
