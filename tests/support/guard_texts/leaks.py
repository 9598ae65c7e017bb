"""Secrets of many kinds in realistic text, and texts that only look like one. All are generated here by a seed."""

# ruff: noqa: E501 (texts as they are found, in all scripts)

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable

_ALNUM = string.ascii_letters + string.digits
_DASHED = _ALNUM + "_-"
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits

Maker = Callable[[random.Random], str]


def _run(alphabet: str, count: int) -> Maker:
    return lambda chance: "".join(chance.choices(alphabet, k=count))


def _made(*pieces: str | Maker) -> Maker:
    """Pieces in a row."""
    return lambda chance: "".join(piece if isinstance(piece, str) else piece(chance) for piece in pieces)


def _token(prefix: str, alphabet: str, count: int) -> Maker:
    return _made(prefix, _run(alphabet, count - 1), _run(alphabet.removesuffix("_-"), 1))


def _jwt(chance: random.Random) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=").decode()
    body = (
        base64.urlsafe_b64encode(f'{{"sub":"{chance.randrange(10**9)}","name":"Anna"}}'.encode()).rstrip(b"=").decode()
    )
    return f"{head}.{body}.{_run(_ALNUM, 43)(chance)}"


def _pem(kind: str) -> Maker:
    def make(chance: random.Random) -> str:
        lines = "\n".join(_run(_ALNUM + "+/", 64)(chance) for _ in range(6))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"

    return make


def _discord(chance: random.Random) -> str:
    head = base64.b64encode(str(chance.randrange(10**17, 10**18)).encode()).decode().rstrip("=")
    return f"{head}.{_run(_ALNUM, 6)(chance)}.{_run(_ALNUM, 38)(chance)}"


def _basic(chance: random.Random) -> str:
    return base64.b64encode(b"anna:" + _run(_ALNUM, 14)(chance).encode()).decode()


def _password(chance: random.Random) -> str:
    return _run(string.ascii_lowercase, 5)(chance) + _run(string.digits, 3)(chance) + "!" + _run(_ALNUM, 4)(chance)


# kind, the secret, and templates around it ({} is the secret)
SECRETS: tuple[tuple[str, Maker, tuple[str, ...]], ...] = (
    ("aws key id", _token("AK" + "IA", _UPPER, 16), ("aws_access_key_id = {}", "The key {} was found in the bucket.")),
    ("aws secret", _run(_ALNUM, 40), ("aws_secret_access_key = {}", 'AWS_SECRET_ACCESS_KEY="{}"')),
    ("github", _token("gh" + "p_", _ALNUM, 36), ("git clone https://{}@github.com/a/b.git", "token: {}", "I pasted {} by mistake.")),
    ("github server", _token("gh" + "s_", _ALNUM, 36), ("GITHUB_TOKEN={}", '{{"token": "{}"}}')),
    ("github fine", _made("github" + "_pat_", _run(_ALNUM, 22), "_", _run(_ALNUM, 59)), ("export GH_TOKEN={}", "Use {} for the runner.")),
    ("gitlab", _token("gl" + "pat-", _ALNUM, 20), ("PRIVATE-TOKEN: {}", "curl --header 'PRIVATE-TOKEN: {}' https://gitlab.example.com")),
    ("slack bot", _made("xo" + "xb-", _run(string.digits, 12), "-", _run(string.digits, 12), "-", _run(_ALNUM, 24)), ("SLACK_BOT_TOKEN={}", "The bot uses {} to post.")),
    ("slack webhook", _made("T", _run(_UPPER, 9), "/B", _run(_UPPER, 9), "/", _run(_ALNUM, 24)), ("webhook: https://hooks.slack.com/services/{}", "curl -d @m.json https://hooks.slack.com/services/{}")),
    ("stripe", _token("sk" + "_live_", _ALNUM, 24), ("stripe.api_key = '{}'", "Stripe: {}")),
    ("stripe restricted", _token("rk" + "_live_", _ALNUM, 24), ("STRIPE_KEY={}", "key {} leaked")),
    ("openai", _made("sk" + "-", _run(_ALNUM, 20), "T3" + "BlbkFJ", _run(_ALNUM, 20)), ("OPENAI_API_KEY={}", "openai.api_key = \"{}\"")),
    ("openai project", _token("sk" + "-proj-", _DASHED, 80), ("OPENAI_API_KEY={}", "My key is {}, please keep it.")),
    ("anthropic", _token("sk" + "-ant-api03-", _DASHED, 93), ("ANTHROPIC_API_KEY={}", "x-api-key: {}")),
    ("google", _token("AI" + "za", _DASHED, 35), ("https://maps.example.com/api?key={}", "GOOGLE_API_KEY: {}")),
    ("google oauth", _token("GOC" + "SPX-", _DASHED, 28), ('"client_secret": "{}"', "secret {} of the app")),
    ("hugging face", _token("h" + "f_", string.ascii_letters + string.digits, 34), ("HF_TOKEN={}", "login(token='{}')")),
    ("npm", _token("np" + "m_", _ALNUM, 36), ("//registry.npmjs.org/:_authToken={}", "npm token {}")),
    ("pypi", _made("pyp" + "i-AgEIcHlwaS5vcmc", _run(_DASHED, 120), "a"), ("password = {}", "TWINE_PASSWORD={}")),
    ("twilio", _token("S" + "K", _HEX, 32), ("TWILIO_API_KEY={}", "Twilio key {} is used")),
    ("sendgrid", _made("S" + "G.", _run(_ALNUM, 22), ".", _run(_ALNUM, 43)), ("SENDGRID_API_KEY={}", "send with {}")),
    ("mailgun", _token("ke" + "y-", _HEX, 32), ("MAILGUN={}", "api:{}")),
    ("telegram", _made(_run("123456789", 10), ":A" + "A", _run(_ALNUM, 33)), ("TELEGRAM_TOKEN={}", "https://api.telegram.org/bot{}/getMe", "bot {} is up")),
    ("discord", _discord, ("DISCORD_TOKEN={}", "client.run('{}')")),
    ("jwt", _jwt, ("Cookie: session={}", "Authorization: Bearer {}", "the token {} expired")),
    ("rsa key", _pem("RSA "), ("key:\n{}\nend", "{}")),
    ("ssh key", _pem("OPENSSH "), ("cat id_ed25519\n{}\n$", "{}")),
    ("plain pem", _pem(""), ("tls.key: |\n{}\n", "{}\nThanks")),
    ("age key", _token("AGE-SECRET" + "-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58), ("# created: today\n{}\n", "age key {}")),
    ("database url", _password, ("DATABASE_URL=postgres://app:{}@db.internal:5432/app", "mysql://root:{}@10.0.0.5/shop")),
    ("basic url", _password, ("https://anna:{}@files.example.com/x", "git clone https://ci:{}@git.example.com/a.git")),
    ("bearer", _token("", _ALNUM, 40), ("Authorization: Bearer {}", "curl -H 'Authorization: Bearer {}' https://api.example.com")),
    ("basic header", _basic, ("Authorization: Basic {}", "-H 'Authorization: Basic {}'")),
    ("password", _password, ("password = \"{}\"", "db_password: {}", '{{"password": "{}"}}', "PASSWORD={}")),
    ("api key", _token("", _ALNUM, 32), ("api_key = '{}'", "API_KEY={}", '"apiKey": "{}"')),
    ("hex secret", _token("", _HEX, 32), ("client_secret={}", "DATADOG_API_KEY={}", "secret_key: '{}'")),
    ("digitalocean", _token("do" + "p_v1_", _HEX, 64), ("DO_TOKEN={}", "doctl auth init -t {}")),
    ("shopify", _token("shp" + "at_", _HEX, 32), ("X-Shopify-Access-Token: {}", "shop token {}")),
    ("square", _token("sq0" + "atp-", _DASHED, 22), ("SQUARE={}", "use {}")),
    ("databricks", _token("dap" + "i", _HEX, 32), ("DATABRICKS_TOKEN={}", "cluster {} key")),
    ("vault", _token("hv" + "s.", _DASHED, 90), ("VAULT_TOKEN={}", "vault login {}")),
    ("doppler", _token("dp" + ".pt.", _ALNUM, 43), ("DOPPLER_TOKEN={}", "doppler {}")),
    ("linear", _token("lin" + "_api_", _ALNUM, 40), ("LINEAR_API_KEY={}", "linear {}")),
    ("notion", _token("nt" + "n_", _ALNUM, 46), ("NOTION_TOKEN={}", "notion {}")),
    ("atlassian", _token("ATA" + "TT3xFfGF0", _DASHED, 170), ("JIRA_TOKEN={}", "jira {}")),
    ("postman", _made("PMA" + "K-", _run(_HEX, 24), "-", _run(_HEX, 34)), ("POSTMAN={}", "x-api-key: {}")),
    ("grafana", _made("gls" + "a_", _run(_ALNUM, 32), "_", _run(_HEX, 8)), ("GRAFANA={}", "grafana {}")),
    ("new relic", _made("NRA" + "K-", _run(_UPPER, 27)), ("NEW_RELIC_API_KEY={}", "key {}")),
    ("groq", _token("gs" + "k_", _ALNUM, 52), ("GROQ_API_KEY={}", "groq {}")),
    ("replicate", _token("r8" + "_", _ALNUM, 37), ("REPLICATE_API_TOKEN={}", "replicate {}")),
    ("docker", _token("dck" + "r_pat_", _DASHED, 27), ("docker login -p {}", "hub {}")),
    ("azure storage", _made(_run(_ALNUM, 86), "=="), ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=x", "AccountKey={}")),
    ("google access", _token("ya2" + "9.", _DASHED, 120), ("access_token: {}", "curl -H 'Authorization: Bearer {}'")),
)  # fmt: skip

CLEAN: tuple[str, ...] = (
    "Set OPENAI_API_KEY=sk-... before you start.",
    "export ANTHROPIC_API_KEY=YOUR_API_KEY",
    "api_key = os.environ['API_KEY']",
    "password = getpass.getpass('Password: ')",
    "password: str = Field(min_length=8)",
    "token = request.headers.get('Authorization')",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "postgres://user:password@localhost:5432/db",
    "postgres://${DB_USER}:${DB_PASS}@db/app",
    "https://example.com:8080/path?x=1",
    "redis://localhost:6379/0",
    "The token count is 4096 and max_tokens: 1024.",
    "tokenizer: gpt2-medium-v1",
    "secretName: my-app-tls-v2",
    "The password must have at least 12 characters, one of them a digit.",
    "Password: ********",
    "password=changeme",
    "api_key: xxxxxxxxxxxxxxxxxxxxxxxx",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "Paste the key, including the line -----BEGIN PRIVATE KEY----- at its top.",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "id: 550e8400-e29b-41d4-a716-446655440000",
    "request 01HZX3V9K2M4N5P6Q7R8S9T0AB took 12 ms",
    "integrity sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg==",
    "resolved https://registry.npmjs.org/lodash/-/lodash-4.17.21.tgz#679591c564c3bffaae8454cf0b3df370c3d6911c",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "etag: \"33a64df551425fcc55e4d42a148795d9f25f89d4\"",
    "color: #a1b2c3; background: url(/static/img/9f8e7d6c5b4a.png)",
    "docker pull python@sha256:2a1c7b0d7e0d1f5f9f0c7d3e0b8a6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b",
    "See https://github.com/example/repo/commit/9fceb02d0ae598e95dc970b74767f19372d61af8",
    "The class AbstractSingletonProxyFactoryBeanConfiguration has too many words.",
    "Install with pip install mainstay[chat]==0.1.0 and run mainstay chat.",
    "Use sk-learn or scikit-learn for the classifier.",
    "The skeleton-based approach and the task-oriented-dialogue-system differ.",
    "ghp_example and github_pat_example are prefixes of tokens.",
    "A key such as AK" + "IAIOSFODNN7EXAMPLE is used in the documentation.",
    "keys start with hf_, npm_, or xoxb- followed by characters",
    "eyJ is how a JWT begins",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0example anna@laptop",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 user@host",
    "MAC 00:1a:2b:3c:4d:5e joined at 12:30:45",
    "def secret_santa(names: list[str]) -> dict[str, str]: ...",
    "The secret: butter. The key: patience. The password: friendship!",
    "Basic understanding of internationalization is required.",
    "Bearer of bad news: the build is red again.",
    "primary_key=True, foreign_key='users.id', cache_key='v2:users:17'",
    "public key: age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
    "token_endpoint: https://auth.example.com/oauth2/token",
    "license: Apache-2.0, version: 12.4.1-rc.2+build.5114f85",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed is a contract",
    "Order 4711-0815-2024 was shipped to box 12345678.",
    "jwt.decode(token, key, algorithms=['HS256'])",
    "if user.password == form.password2: login(user)",
    "Passwords are hashed: $2b$12$saltsaltsaltsaltsaltsa is only a prefix.",
    "const apiKey = process.env.API_KEY ?? config.apiKey;",
    "secret = load_secret('database/creds/readonly')",
    "Set `password` in values.yaml or pass --set auth.password=$PASS.",
    "The quick brown fox jumps over the lazy dog and reads 3 books.",
    "uv.lock: hash = \"sha256:6b0764c4f8ef2c1bb4f1ab2b0f5c8d38e0a3ad9e1d4b7a60c9d9a43bd5f2e617\"",
    "Cargo.lock checksum = \"c4872d67bab6358e59559027aa3b9157c53d9358c51423c17554809a8858e0f8\"",
    "go.sum: github.com/pkg/errors v0.9.1 h1:FEBLx1zS214owpjy7qsBeixbURkuhQAwrK5UwLGTwt4=",
    "https://cdn.example.com/assets/index-BkX2vQ9a.js",
    "session 7f3c9a10-1b2c-4d5e-8f90-a1b2c3d4e5f6 ended",
    "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7",
    "WWW-Authenticate: Basic realm=\"example\"",
    "grep -rn 'password' src | wc -l",
    "The passwords table has 3 columns: id, user_id, hash.",
    "credential_process = /usr/local/bin/aws-creds --profile dev",
)  # fmt: skip

PERSONAL: tuple[tuple[str, str, str], ...] = (
    ("e-mail address", "anna.schmidt+news@mail.example.co.uk", "Write to {} please."),
    ("phone number", "+49 30 901820", "Call {} today."),
    ("phone number", "+14155552671", "SMS to {}."),
    ("phone number", "(415) 555-2671", "Office: {}."),
    ("phone number", "020 7946 0958", "London {} is the desk."),
    ("card number", "4111 1111 1111 1111", "Card {} was charged."),
    ("card number", "378282246310005", "Amex {} expires."),
    ("bank account", "DE89 3704 0044 0532 0130 00", "IBAN {}, thanks."),
    ("bank account", "GB82WEST12345698765432", "Pay to {} now."),
    ("social security number", "123-45-6789", "SSN {} on file."),
    ("national insurance number", "AB 12 34 56 C", "NI number {}."),
    ("ip address", "93.184.216.34", "Login from {} at noon."),
    ("ip address", "2606:2800:220:1:248:1893:25c8:1946", "Host {} answered."),
    ("bitcoin address", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "Send coins to {}."),
    ("ethereum address", "0x52908400098527886E0F7030069857D2E4169EE7", "Wallet {} is empty."),
)
NOT_PERSONAL: tuple[str, ...] = (
    "The meeting is on 2024-05-01 at 12:30:45, room 4.",
    "Version 10.2.3.4 and 192.168.1.17 and 127.0.0.1 stay.",
    "Order 1234 5678 9012 3456 is not a card.",
    "IBAN DE00 3704 0044 0532 0130 00 has a wrong checksum.",
    "From 01/02/2024 to 03/04/2025, 1,234,567.89 euros.",
    "@mention someone, or a @ b, or foo@localhost.",
    "Pages 100-200, 555-1234 and 000-12-3456.",
    "fe80::1 and ::1 are local.",
)


# Written after the redactor was done, and only measured.
_FRESH: tuple[str, ...] = (
    "2026-11-02T10:00:01Z ERROR upstream refused key {} (401)",
    'resource "x" "y" {{\n  value = "{}"\n}}',
    "lee: here you go -> {} <- don't share it",
    '  - name: CRED\n    value: "{}"\n  - name: OTHER',
    "fetch('/v1', {{headers: {{'X-Auth': '{}'}}}})",
    'Error: invalid credentials "{}" at login (app.js:14:3)\\n',
    "| prod | {} | anna |",
)
_FRESH_NAMED: tuple[tuple[str, Maker, str], ...] = (
    ("database url", _password, "jdbc:postgresql://app:{}@db.internal/x"),
    ("database url", _password, "CELERY_BROKER=amqp://svc:{}@mq:5672//"),
    ("password", _password, 'mysql -u root --password="{}"'),
    ("password", _password, "MYSQL_ROOT_PASSWORD: {}"),
    ("password", _password, "spring.datasource.password={}"),
    ("password", _password, "passwd: '{}'"),
    ("password", _password, "smtp_pass = {}"),
    ("api key", _run(_ALNUM, 32), "X-API-Key: {}"),
    ("api key", _run(_ALNUM, 40), 'const authToken = "{}";'),
    ("api key", _run(_ALNUM, 32), "https://api.example.com/v1?api_key={}&q=1"),
    ("hex secret", _run(_HEX, 40), "SESSION_SECRET={}"),
    ("hex secret", _run(_HEX, 64), "signing_key: {}"),
    ("aws secret", _run(_ALNUM, 40), 'secret_access_key: "{}"'),
    ("bearer", _run(_ALNUM, 48), "headers = {{'Authorization': 'Bearer {}'}}"),
)  # fmt: skip
_BY_NAME = {"aws secret", "database url", "basic url", "bearer", "basic header", "password", "api key", "hex secret", "azure storage", "slack webhook"}  # fmt: skip

CLEAN_FRESH: tuple[str, ...] = (
    "Rotate tokens every 90 days; store them in the vault under team/app.",
    "curl -u \"$USER:$PASSWORD\" https://api.example.com/v1/me",
    "password_hash = bcrypt.hashpw(password, bcrypt.gensalt(12))",
    "Invalid password: expected 8-64 characters, got 3",
    "api_key: ${{ secrets.API_KEY }}",
    "token: !vault secret/data/app#token",
    "secretKeyRef:\n  name: app-secrets\n  key: db-password",
    "access_key = var.access_key",
    "AWS_REGION=eu-central-1 AWS_PROFILE=dev terraform plan",
    "The github_token input defaults to ${{ github.token }}.",
    "Merge 3f9c2d1e7b into main, fixes #4711",
    "md5 d41d8cd98f00b204e9800998ecf8427e empty.txt",
    "X-Request-Id: 9b2e4c1a7d6f4e0b8a3c5d7e9f1a2b3c",
    "postgresql://localhost/test?sslmode=disable",
    "mailto:anna@example.com?subject=hello",
    "git@github.com:example/repo.git",
    "https://user@host.example.com/path",
    "The apiKey parameter is required and has 32 characters.",
    "PasswordResetTokenGenerator and TokenAuthenticationMiddleware2 are classes.",
    "token = secrets.token_urlsafe(32)",
    "const token = await getToken({ audience: 'api' });",
    "auth: { type: 'oauth2', flow: 'authorizationCode' }",
    "\"key\": \"value\", \"token_type\": \"bearer\", \"expires_in\": 3600",
    "session_key_prefix = 'app:v2:'",
    "private_key_path: ~/.ssh/id_ed25519",
    "secret_version: projects/1/secrets/db/versions/7",
    "Your verification code is 493817.",
    "class sk_model: pass  # sk- stands for scikit",
    "npm_config_registry=https://registry.npmjs.org/",
    "xoxo, see you tomorrow!",
    "AIzawa and Akiara are names; AKIA is not.",
    "ISBN 978-3-16-148410-0, DOI 10.1000/182",
    "eyJust kidding.eyJoking.nothing",
    "s3://bucket/AKIA-logs/2024/05/01/part-00000-6f1d.parquet",
    "base64: VGhpcyBpcyBqdXN0IGEgc2VudGVuY2UsIG5vdGhpbmcgbW9yZS4=",
)  # fmt: skip


def leaks() -> list[tuple[str, str, str, bool]]:
    """(kind, text, secret, held out)."""
    chance = random.Random(9)
    found = []
    for kind, make, templates in SECRETS:
        for template in templates:
            secret = make(chance)
            found.append((kind, template.format(secret), secret, False))
        for template in () if kind in _BY_NAME else chance.sample(_FRESH, 2):
            secret = make(chance)
            found.append((kind, template.format(secret), secret, True))
    for kind, make, template in _FRESH_NAMED:
        for _ in range(2):
            secret = make(chance)
            found.append((kind, template.format(secret), secret, True))
    return found


def clean() -> list[tuple[str, bool]]:
    return [(text, held_out) for held_out, texts in ((False, CLEAN), (True, CLEAN_FRESH)) for text in texts]


def shown(secret: str, text: str) -> bool:
    """Whether a good part of the secret can be read in the text."""
    body = secret.partition("KEY-----")[2] or secret
    part = max(6, min(12, len(body) // 2))
    return any(body[i : i + part] in text for i in range(len(body) - part + 1))
