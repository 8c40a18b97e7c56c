"""The answers of the desk's HTTP interface to a scripted story on SQLite.

The clock is turned by hand, so that times are the same every time. Tokens, leases and secrets are
random, and are replaced by a mark; so are reasons, which are sentences.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

from tests.contract import data, subject
from tests.contract.compare import PROSE, normalised
from tests.contract.stored import write_policy

NDJSON = "application/x-ndjson"
HEADERS = ("content-type", "www-authenticate", "content-disposition", "retry-after", "connection")
SECRETS = {"lease", "secret", "head", "sha256", "reason"}
PAGES = (
    "/",
    "/sign-in",
    "/review",
    "/manage",
    "/manage/policies",
    "/manage/people",
    "/audit",
    "/nowhere",
)


def entries(folder):
    return {name: partial(_step, folder, name) for name in _stories(folder)}


@cache
def _stories(folder):
    steps = {}
    with tempfile.TemporaryDirectory(dir=data.MEMORY) as place:
        for name, (story, second_share) in STORIES.items():
            with Teller(Path(place, name), steps, f"{name}: ", second_share) as desk:
                story(desk, folder)
    return steps


def _step(folder, name):
    return _stories(folder)[name]


class Teller:
    """Sends requests to a desk in a folder, and records the answers."""

    def __init__(self, folder, steps, prefix, second_share=0.0):
        self.folder, self.steps, self.prefix = folder, steps, prefix
        shares = {"second_share": second_share, "audit_second_share": second_share}
        self.rules = {"quality_rate": 0.2, **shares, "lease_seconds": 600}
        self.clock = subject.Clock()
        self.tokens = {}

    def __enter__(self):
        import httpx

        self.desk = subject.open_desk(self.folder, self.clock, **self.rules).__enter__()
        app = httpx.ASGITransport(subject.desk_app(self.desk), raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=app, base_url="http://desk")
        # A loop in a thread of its own: a browser's tests leave a loop running in the main thread.
        self.thread = ThreadPoolExecutor(1).__enter__()
        self.runner = asyncio.Runner()
        return self

    def __exit__(self, *error):
        self.run(self.client.aclose())
        self.thread.submit(self.runner.close).result()
        self.thread.__exit__(*error)
        self.desk.__exit__(*error)

    def run(self, coroutine):
        return self.thread.submit(self.runner.run, coroutine).result()

    def token(self, role, name=None):
        who = (name or role, role)
        if who not in self.tokens:
            self.tokens[who] = subject.desk_token(self.desk, *who)
        return self.tokens[who]

    def ask(self, method, path, role=None, *, name=None, token=None, kind=None, **options):
        """Send a request without recording it."""
        headers = {**options.pop("headers", {})}
        if kind is not None:
            headers["Content-Type"] = kind
        if role is not None or token is not None:
            headers["Authorization"] = f"Bearer {token or self.token(role, name)}"
        return self.run(self.client.request(method, path, headers=headers, **options))

    def tell(self, step, method, path, role=None, **options):
        """Send a request, record its answer under a name, and return the answer."""
        answer = self.ask(method, path, role, **options)
        assert self.prefix + step not in self.steps
        self.steps[self.prefix + step] = _recorded(answer)
        return answer

    def lines(self, step, *contents):
        body = b"".join(
            (each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n"
            for each in contents
        )
        return self.tell(step, "POST", "/api/cases", "api", content=body, kind=NDJSON)


def _recorded(answer):
    headers = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
    return {"status": answer.status_code, "headers": headers, "body": _body(answer)}


def _body(answer):
    kind = answer.headers.get("content-type", "")
    if kind.startswith("application/json"):
        return normalised(answer.json(), PROSE | SECRETS)
    if kind.startswith(NDJSON):
        lines = [json.loads(line) for line in answer.text.splitlines()]
        return normalised(lines, PROSE | SECRETS)
    if kind.startswith("text/html"):
        return "*"
    if kind.endswith("parquet"):
        return _table(answer.content)
    return [line for line in answer.text.splitlines() if not line.startswith("# HELP")]


def _table(content):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(content))
    types = {field.name: str(field.type) for field in table.schema}
    return {"types": types, "number": table.num_rows}


def case(key, cat=0.9, **more):
    rest = round((1 - cat) / 2, 4)
    return {
        "key": key,
        "probabilities": {"cat": cat, "dog": rest, "owl": round(1 - cat - rest, 4)},
        "model": "model",
        **more,
    }


def _policy(folder, name):
    return write_policy(folder / "policy.json", name).read_bytes()


# ------------------------------------------------------------------ stories


def _work(desk, folder):
    """Policies, cases, readers, disputes, the state, exports."""
    policy = _policy(folder, "of a command")
    desk.tell("empty state", "GET", "/api/state", "manager")
    desk.tell("health", "GET", "/healthz")
    desk.tell("no policies", "GET", "/api/policies", "auditor")
    desk.tell("case without a policy", "POST", "/api/cases", "api", json=case("early"))
    desk.tell("policy added", "POST", "/api/policies", "manager", content=policy)
    desk.tell("policy activated", "POST", "/api/policies/1/activate", "manager")
    desk.tell("policy activated twice", "POST", "/api/policies/1/activate", "manager")
    _send(desk)
    _read(desk)
    _watch(desk)
    desk.tell("policies", "GET", "/api/policies", "auditor")
    desk.tell(
        "policy withdrawn", "POST", "/api/policies/1/withdraw", "manager", json={"reason": "old"}
    )
    desk.tell("case after the end", "POST", "/api/cases", "api", json=case("late"))
    desk.tell("look back", "POST", "/api/look-back", "manager", json={"policy": 1, "share": 0.5})
    desk.tell("look back, the rest", "POST", "/api/look-back", "manager", json={"policy": 1})
    desk.tell("state at the end", "GET", "/api/state", "manager")


def _send(desk):
    desk.tell("case decided", "POST", "/api/cases", "api", json=case("sure"))
    desk.tell("case again", "POST", "/api/cases", "api", json=case("sure"))
    desk.tell("case with other content", "POST", "/api/cases", "api", json=case("sure", 0.8))
    desk.tell("case delegated", "POST", "/api/cases", "api", json=case("unsure", 0.4))
    void = {"key": "unsure", "reason": "sent twice"}
    desk.tell("case voided", "POST", "/api/void", "manager", json=void)
    desk.tell("case voided, shown", "GET", "/api/cases/unsure", "api")
    desk.tell(
        *("case of another model", "POST", "/api/cases", "api"), json={**case("x"), "model": "y"}
    )
    large = {"kind": "text", "content": "long " * 30_000}
    desk.tell("large case", "POST", "/api/cases", "api", json=case("large", 0.4, body=large))
    desk.lines(
        "lines",
        case("l1"),
        {"key": "l2"},
        b"nonsense",
        case("sure", 0.7),
        case("l3", 0.4, group="north", cluster="p1", due=1_700_000_300),
        {**case("l4"), "size": 3},
        {**case("l5"), "probabilities": {"cat": 0.5, "cow": 0.5}},
        {**case("l6"), "probabilities": {"cat": 0.9, "dog": 0.9, "owl": 0.9}},
        {**case("l7"), "probabilities": {"cat": None, "dog": 0.5, "owl": 0.5}},
        case("l8", 0.4, body={"kind": "table", "content": {"age": 3}}),
        case("l9", 0.4, body={"kind": "nonsense", "content": 1}),
        {**case(""), "key": ""},
        case("l10", due="2023-11-20T10:00:00Z"),
    )
    desk.lines("many lines", *(case(f"many {i}", 0.5 + i / 50) for i in range(16)))
    desk.tell("case shown", "GET", "/api/cases/sure", "api")
    desk.tell("delegated case shown", "GET", "/api/cases/l3", "api")
    desk.tell("no such case", "GET", "/api/cases/nowhere", "api")


def _read(desk):
    held = desk.tell("claim", "POST", "/api/claims", "reader").json()
    path = f"/api/claims/{held['lease']}"
    desk.tell("claim again", "POST", "/api/claims", "reader")
    desk.clock.turn(60)
    desk.tell("extended", "POST", f"{path}/extend", "reader")
    desk.tell("returned", "POST", f"{path}/return", "reader")
    desk.tell("returned twice", "POST", f"{path}/return", "reader")
    held = desk.tell("claim after a return", "POST", "/api/claims", "reader").json()
    path = f"/api/claims/{held['lease']}"
    desk.tell("skipped", "POST", f"{path}/skip", "reader", json={"reason": "blurred"})
    desk.tell("skipped twice", "POST", f"{path}/skip", "reader", json={"reason": "blurred"})
    held = desk.tell("claim after a skip", "POST", "/api/claims", "reader").json()
    path = f"/api/claims/{held['lease']}"
    desk.tell("extended too late", "POST", "/api/claims/nonsense/extend", "reader")
    body = {"label": "dog", "submission": "s1"}
    desk.tell("label unknown", "POST", f"{path}/answer", "reader", json={**body, "label": "cow"})
    desk.tell("answer without a name", "POST", f"{path}/answer", "reader", json={"label": "dog"})
    desk.tell("of another reader", "POST", f"{path}/answer", "reader", name="bob", json=body)
    desk.tell("answered", "POST", f"{path}/answer", "reader", json=body)
    desk.tell("answered twice", "POST", f"{path}/answer", "reader", json=body)
    desk.tell(
        *("another answer", "POST", f"{path}/answer", "reader"), json={**body, "label": "cat"}
    )
    desk.tell("undone", "POST", "/api/answers/s1/undo", "reader")
    held = desk.ask("POST", "/api/claims", "reader").json()
    path = f"/api/claims/{held['lease']}/answer"
    desk.tell("answered again", "POST", path, "reader", json={"label": "cat", "submission": "s2"})
    desk.clock.turn(60)
    desk.tell("undone too late", "POST", "/api/answers/s2/undo", "reader")
    desk.tell("undone unknown", "POST", "/api/answers/s9/undo", "reader")
    held = desk.ask("POST", "/api/claims", "reader").json()
    desk.clock.turn(700)
    path = f"/api/claims/{held['lease']}/answer"
    desk.tell("other reader claims", "POST", "/api/claims", "reader", name="bob")
    desk.tell("answered late", "POST", path, "reader", json={"label": "cat", "submission": "s3"})
    _read_all(desk, "bob", lambda key: "owl" if key == "l1" else "cat")
    desk.tell("arbiter claims", "POST", "/api/claims", "arbiter")
    _read_all(desk, "cleo", lambda key: "cat")
    desk.tell("nothing left", "POST", "/api/claims", "reader", name="cleo")
    desk.tell("decided by readers", "GET", "/api/cases/l3", "api")
    desk.tell("decided otherwise", "GET", "/api/cases/l1", "api")


def _read_all(desk, name, label_of, role="reader"):
    """Let a reader answer whatever waits; return how much it was."""
    for number in range(200):
        answer = desk.ask("POST", "/api/claims", role, name=name)
        if answer.status_code == 204:
            return number
        held = answer.json()
        body = {"label": label_of(held["key"]), "submission": f"{name}{number}"}
        path = f"/api/claims/{held['lease']}/answer"
        desk.ask("POST", path, role, name=name, json=body)
        desk.clock.turn(20)
    raise AssertionError("the queue does not become empty")


def _watch(desk):
    desk.tell("void closed", "POST", "/api/void", "manager", json={"key": "large", "reason": "x"})
    desk.tell("void unknown", "POST", "/api/void", "manager", json={"key": "?", "reason": "x"})
    desk.tell("state", "GET", "/api/state", "auditor")
    desk.tell("metrics", "GET", "/metrics", "api")
    desk.tell("export", "GET", "/api/export?cases=audited", "manager")
    for form in ("csv", "parquet"):
        desk.tell(f"export {form}", "GET", f"/api/export?format={form}&cases=labelled", "manager")
    exported = desk.ask("GET", "/api/export", "manager").text.splitlines()
    desk.steps[f"{desk.prefix}export of everything"] = [
        [row["key"], row["state"], row["cause"], row["y_true"], row["decision"]]
        for row in map(json.loads, exported)
    ]
    desk.tell("export unknown", "GET", "/api/export?format=xml", "manager")
    hook = {"url": "https://example.org/hook"}
    desk.tell("webhook", "POST", "/api/webhooks", "manager", json=hook)
    desk.tell("webhook replayed", "POST", "/api/webhooks/1/replay", "manager", json={"since": 0})
    desk.tell("webhook ended", "POST", "/api/webhooks/1/end", "manager")
    desk.tell("webhook ended twice", "POST", "/api/webhooks/1/end", "manager")
    desk.tell("webhook elsewhere", "POST", "/api/webhooks", "manager", json={"url": "ftp://x"})


def _errors(desk, folder):
    """Whom and what the desk refuses."""
    refused = {
        "no token": ("POST", "/api/cases", None, {"json": case("a")}),
        "wrong token": ("POST", "/api/cases", None, {"json": case("a"), "token": "eld_x"}),
        "wrong role": ("POST", "/api/cases", "reader", {"json": case("a")}),
        "state for a reader": ("GET", "/api/state", "reader", {}),
        "state without a token": ("GET", "/api/state", None, {}),
        "claim for a manager": ("POST", "/api/claims", "manager", {}),
        "metrics without a token": ("GET", "/metrics", None, {}),
        "no such path": ("GET", "/api/nowhere", "manager", {}),
        "wrong method": ("GET", "/api/claims", "reader", {}),
        "no such policy": ("POST", "/api/policies/9/activate", "manager", {}),
        "policy without a number": ("POST", "/api/policies/x/activate", "manager", {}),
        "policy that is none": ("POST", "/api/policies", "manager", {"content": b"{}"}),
        "policy that is no text": ("POST", "/api/policies", "manager", {"content": b"\xff"}),
        "withdrawal without a reason": (
            "POST",
            "/api/policies/9/withdraw",
            "manager",
            {"json": {}},
        ),
        "case that is no JSON": (
            *("POST", "/api/cases", "api"),
            {"content": b"{", "kind": "application/json"},
        ),
        "case that is a list": ("POST", "/api/cases", "api", {"json": []}),
        "case as text": ("POST", "/api/cases", "api", {"content": b"x", "kind": "text/plain"}),
        "case without a key": ("POST", "/api/cases", "api", {"json": {"confidence": 1}}),
        "too many lines": (
            *("POST", "/api/cases", "api"),
            {"content": b"{}\n" * 5001, "kind": NDJSON},
        ),
        "no such lease": (
            *("POST", "/api/claims/x/answer", "reader"),
            {"json": {"label": "cat", "submission": "s"}},
        ),
        "recertify without labels": (
            *("POST", "/api/recertify", "manager"),
            {"json": {"target_accuracy": 0.9}},
        ),
        "recertify at 97": ("POST", "/api/recertify", "manager", {"json": {"target_accuracy": 97}}),
        "look back at nothing": ("POST", "/api/look-back", "manager", {"json": {"policy": 9}}),
        "no such webhook": ("POST", "/api/webhooks/9/end", "manager", {}),
    }
    for name, (method, path, role, options) in refused.items():
        desk.tell(name, method, path, role, **options)
    desk.tell("nothing to claim", "POST", "/api/claims", "reader")
    not_certified = _policy(folder, "not certified")
    desk.tell("policy not certified", "POST", "/api/policies", "manager", content=not_certified)
    described = _policy(folder, "described")
    desk.tell("policy described", "POST", "/api/policies", "manager", content=described)
    for path in PAGES:
        answer = desk.ask("GET", path, headers={"Accept": "text/html"})
        desk.steps[f"{desk.prefix}page {path}"] = {
            "status": answer.status_code,
            "location": answer.headers.get("location"),
        }
    desk.steps[f"{desk.prefix}openapi"] = _schema(desk.ask("GET", "/api/openapi.json").json())


def _groups(desk, folder):
    """A policy of groups, and one that ranks by a confidence."""
    groups = _policy(folder, "of a command with groups")
    desk.tell("policy", "POST", "/api/policies", "manager", content=groups)
    desk.tell("active", "POST", "/api/policies/1/activate", "manager")
    desk.lines(
        "lines",
        *(
            case(f"{site} {cat}", cat, group=site)
            for site in ("north", "west")
            for cat in (0.5, 0.9)
        ),
        case("nowhere"),
    )
    confidence = _policy(folder, "of a command on answers")
    desk.tell("second policy", "POST", "/api/policies", "manager", content=confidence)
    desk.tell("second active", "POST", "/api/policies/2/activate", "manager")
    desk.lines(
        "confidences",
        *(
            {"key": f"c{i}", "confidence": i / 10, "label": "cat", "model": "judged"}
            for i in range(0, 11, 2)
        ),
        {"key": "probabilities", "probabilities": {"cat": 1.0}, "model": "judged"},
    )
    desk.tell("policies", "GET", "/api/policies", "manager")


def _recertify(desk, folder):
    """Blind labels of a period become a new policy; an alarm ends a policy that errs."""
    cases = data.predictions(60)
    sent = [
        {"key": str(i), "probabilities": dict(zip(data.CLASSES, row, strict=True))}
        for i, row in enumerate(cases.proba.tolist())
    ]
    labels = {str(i): label for i, label in enumerate(cases.label.tolist())}
    desk.ask("POST", "/api/policies", "manager", content=_policy(folder, "of a command"))
    body = "\n".join(json.dumps({**each, "model": "model"}) for each in sent).encode()
    desk.ask("POST", "/api/cases", "api", content=body, kind=NDJSON)
    _read_all(desk, "ann", labels.__getitem__)
    desk.tell("state before second readings", "GET", "/api/state", "manager")
    _read_all(desk, "bob", labels.__getitem__)
    wanted = {"target_accuracy": 0.5, "confidence_level": 0.9}
    desk.tell("recertified", "POST", "/api/recertify", "manager", json=wanted)
    desk.tell("policies", "GET", "/api/policies", "manager")
    desk.ask("POST", "/api/policies/1/activate", "manager")
    wrong = b"".join(json.dumps(case(f"w{i}", 0.95)).encode() + b"\n" for i in range(60))
    desk.ask("POST", "/api/cases", "api", content=wrong, kind=NDJSON)
    _read_all(desk, "ann", lambda key: "dog")
    desk.tell("state after first readings", "GET", "/api/state", "manager")
    held = desk.tell("arbiter claims", "POST", "/api/claims", "arbiter").json()
    path = f"/api/claims/{held['lease']}/answer"
    desk.tell("arbiter answers", "POST", path, "arbiter", json={"label": "cat", "submission": "a"})
    desk.tell("disputed case", "GET", f"/api/cases/{held['key']}", "api")
    _read_all(desk, "arbiter", lambda key: "dog", role="arbiter")
    desk.tell("policies after wrong decisions", "GET", "/api/policies", "manager")
    desk.tell("state after wrong decisions", "GET", "/api/state", "manager")


# Each with the share of cases that a second reader sees.
STORIES = {
    "work": (_work, 0.0),
    "errors": (_errors, 0.0),
    "groups": (_groups, 0.0),
    "recertify": (_recertify, 0.3),
}


# ------------------------------------------------------------------ the schema


def _schema(document):
    """What the OpenAPI page promises, without its words and the names of Python's classes."""
    parts = document.get("components", {}).get("schemas", {})
    return {
        f"{method.upper()} {path}": {
            "parameters": [
                [each["name"], each["in"], _without_words(each["schema"], parts)]
                for each in operation.get("parameters", [])
            ],
            "body": {
                kind: _without_words(each["schema"], parts)
                for kind, each in operation.get("requestBody", {}).get("content", {}).items()
            },
            "answers": sorted(operation["responses"]),
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def _without_words(schema, parts):
    if isinstance(schema, list):
        return [_without_words(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _without_words(parts[re.split("/", schema["$ref"])[-1]], parts)
    words = ("title", "description")
    return {
        key: {name: _without_words(each, parts) for name, each in value.items()}
        if key == "properties"
        else _without_words(value, parts)
        for key, value in schema.items()
        if key not in words
    }
