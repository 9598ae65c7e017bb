"""A server that answers as a published OpenAPI description says, and refuses what the description does not allow.

It reads the description by itself, with the standard library and a JSON Schema library, so that it does not share the
mistakes of what it tests.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import jsonschema_rs


class DescribedApi:
    """`asked` are the requests, `refused` why it said no to some."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description
        self.asked: list[tuple[str, str]] = []
        self.refused: list[str] = []

    def __enter__(self) -> Self:
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                status, value = api.answer(self.command, self.path, dict(self.headers), body)
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

            def log_message(self, format: str, *args: Any) -> None:
                """No log."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._thread.join(120)
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    # --- answering -------------------------------------------------------------------------------

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        self.asked.append((method, target))
        parts = urlsplit(target)
        found = self._match(method, parts.path)
        if found is None:
            return self._refuse(404, f"no {method} {parts.path}")
        item, operation, values = found
        query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        known = [self.resolve(one) for one in (*item.get("parameters", []), *operation.get("parameters", []))]
        names = {one["name"] for one in known if one["in"] == "query"}
        if query.keys() - names:
            return self._refuse(400, f"unknown {sorted(query.keys() - names)}")
        for one in known:
            given = values.get(one["name"]) if one["in"] == "path" else query.get(one["name"])
            if given is None and one.get("required") and one["in"] in ("path", "query"):
                return self._refuse(400, f"no {one['name']}")
            if given is not None and (trouble := self._trouble(one, given)):
                return self._refuse(400, trouble)
        if body and (trouble := self._body_trouble(operation, json.loads(body))):
            return self._refuse(422, trouble)
        return self._example(operation)

    def _refuse(self, status: int, why: str) -> tuple[int, Any]:
        self.refused.append(why)
        return status, {"message": why}

    def _match(self, method: str, path: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]] | None:
        """The template with the fewest parameters that fits."""
        best: tuple[int, Any] = (99, None)
        for template, item in self.description["paths"].items():
            pattern = re.sub(r"\\\{([^{}]+?)\\\}", "([^/]+)", re.escape(template))
            names = re.findall(r"\{([^{}]+)\}", template)
            match = re.fullmatch(pattern, path)
            if match and method.lower() in item and len(names) < best[0]:
                values = dict(zip(names, map(unquote, match.groups()), strict=True))
                best = (len(names), (item, item[method.lower()], values))
        return best[1]  # type: ignore[no-any-return]

    def resolve(self, node: Any) -> Any:
        while isinstance(node, dict) and "$ref" in node:
            at: Any = self.description
            for step in node["$ref"].removeprefix("#/").split("/"):
                at = at[unquote(step).replace("~1", "/").replace("~0", "~")]
            node = at
        return node

    def _trouble(self, parameter: dict[str, Any], given: Any) -> str:
        schema = self.resolve(parameter.get("schema", {}))
        texts = given if isinstance(given, list) else [given]
        if schema.get("type") == "array":
            if parameter.get("explode", True) is False:
                texts = [piece for text in texts for piece in text.split(",")]
            value: Any = [_typed(text, self.resolve(schema.get("items", {}))) for text in texts]
        elif len(texts) != 1:
            return f"{parameter['name']} comes {len(texts)} times"
        else:
            value = _typed(texts[0], schema)
        return self._invalid(schema, value)

    def _body_trouble(self, operation: dict[str, Any], value: Any) -> str:
        content = self.resolve(operation.get("requestBody", {})).get("content", {})
        return self._invalid(content.get("application/json", {}).get("schema", {}), value)

    def _invalid(self, schema: dict[str, Any], value: Any) -> str:
        whole = {"components": self.description.get("components", {}), "allOf": [schema]}
        try:
            jsonschema_rs.validator_for(whole).validate(value)
        except jsonschema_rs.ValidationError as error:
            return str(error.message)[:200]
        return ""

    def _example(self, operation: dict[str, Any]) -> tuple[int, Any]:
        status, response = next(
            (int(code), self.resolve(one)) for code, one in operation["responses"].items() if code.startswith("2")
        )
        content = response.get("content", {}).get("application/json", {})
        examples = [self.resolve(one).get("value") for one in content.get("examples", {}).values()]
        return status, examples[0] if examples else content.get("example", {"ok": True})


def _typed(text: str, schema: dict[str, Any]) -> Any:
    kind = schema.get("type")
    if kind in ("integer", "number", "boolean"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text
