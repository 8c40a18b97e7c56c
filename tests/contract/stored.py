"""Files: what is written today, and that the committed files are read and decide the same.

"written …" is a document as it is saved; its date, versions and digests are those of the committed
one, which are not compared. "read …" is what the committed file answers, word for word as it was
saved. Files of older schemas are made from today's by leaving out what was added since.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np

from tests.contract import data, subject
from tests.contract.compare import VARIES, read_snapshot
from tests.contract.running import run

# The fields that older schemas of a policy did not have.
ADDED = {
    "origin": {
        "probability_columns": 2,
        "confidence_column": 2,
        "confidence_quantiles": 3,
        "read_as": 4,
        "score": 5,
        "group_column": 6,
    },
    "content": {"clusters": 3, "passed": 3},
}
OLD = {
    1: "certified",
    2: "groups",
    3: "of a command with clusters",
    4: "error budget",
}
# Policies that a command saves, which know the columns of their file.
COMMANDS = {
    "of a command": ("model.csv", "--target-accuracy", 0.85),
    "of a command with groups": (
        *("model.csv", "--group", "site", "--certify-groups", "--target-accuracy", 0.7),
    ),
    "of a command with clusters": ("model.csv", "--cluster", "patient", "--target-accuracy", 0.8),
    "of a command on answers": ("judged.csv", "--target-accuracy", 0.77),
    "chosen confidence": (
        *("logits.csv", "--choose-confidence", "--target-accuracy", 0.75, "--seed", 1),
    ),
}


def entries(folder):
    texts = _texts(folder)
    recorded = read_snapshot("stored")
    made = {}
    for name, text in texts.items():
        before = recorded.get(f"written {name}")
        made[f"written {name}"] = partial(_written, text, before)
        made[f"read {name}"] = partial(_read, text, before, name, folder)
    return made


def write_policy(path, name):
    """Write a committed policy for a command or a desk."""
    path.write_text(json.dumps(read_snapshot("stored")[f"written policy {name}"]), "utf-8")
    return path


def _written(text, before):
    document = json.loads(text())
    return document if before is None else _with_varying(document, before)


def _with_varying(document, before):
    """Return a document with the dates, versions and digests of another."""
    if isinstance(document, dict) and isinstance(before, dict):
        return {
            key: before[key] if _varies(key, each, before) else _with_varying(each, before.get(key))
            for key, each in document.items()
        }
    if isinstance(document, list) and isinstance(before, list) and len(document) == len(before):
        return [_with_varying(*pair) for pair in zip(document, before, strict=True)]
    return document


def _varies(key, value, before):
    is_digest = key == "policy" and isinstance(value, str)
    return (key in VARIES or is_digest) and isinstance(before.get(key), type(value))


def _read(text, before, name, folder):
    path = folder / "read.json"
    path.write_text(text() if before is None else json.dumps(before), "utf-8")
    return READERS[name.split()[0]](path)


# ------------------------------------------------------------------ writing


def _texts(folder):
    """All files as functions that return their text."""
    texts = {f"policy {name}": partial(_policy_text, name, folder) for name in _policies()}
    for name in COMMANDS:
        texts[f"policy {name}"] = partial(lambda name: saved_by_command(name)[1], name)
    for name in (*subject.CALIBRATORS, "correctness"):
        texts[f"calibrator {name}"] = partial(_calibrator_text, name, folder)
    for name in subject.make_monitors():
        texts[f"monitor {name}"] = partial(_monitor_text, name, folder)
    texts["monitor of a policy"] = partial(_monitor_of_policy, folder)
    for version, name in OLD.items():
        older = partial(_older, texts[f"policy {name}"], version)
        texts[f"policy of schema {version}"] = older
    texts["monitor of schema 1"] = partial(_older_monitor, texts["monitor keys"])
    return texts


@cache
def _policies():
    costs = (np.arange(90) % 4 + 1) / 4
    return subject.make_policies(data.answers(90), data.predictions(data.MODEL), costs)


def _saved(made, folder):
    made.save(folder / "made.json")
    return (folder / "made.json").read_text("utf-8")


def _policy_text(name, folder):
    return _saved(_policies()[name], folder)


@cache
def saved_by_command(name):
    """The JSON that `evaluate` prints, and the text of the policy that it saves."""
    with tempfile.TemporaryDirectory() as place:
        folder = data.write_files(Path(place))
        file, *options = COMMANDS[name]
        named = ("--name", Path(file).stem, "--json", "--save-policy", "saved.json")
        words = ("evaluate", file, *options, *named)
        printed = run(*words, folder=folder).stdout
        return printed, (folder / "saved.json").read_text("utf-8")


def _calibrator_text(name, folder):
    cases = data.predictions(30)
    return _saved(subject.make_calibrator(name, cases.logits, cases.y), folder)


def _monitor_text(name, folder):
    return _saved(subject.make_monitors()[name], folder)


def _monitor_of_policy(folder):
    _policies()["certified"].save(folder / "policy.json")
    return _saved(subject.monitor_policy(folder / "policy.json", [1, 1, 0, 1]), folder)


def _older(text, version):
    document = json.loads(text())
    _leave_out(document["origin"], ADDED["origin"], version)
    groups = document["content"].get("groups")
    for point in [each["point"] for each in groups] if groups else [document["content"]]:
        _leave_out(point, ADDED["content"], version)
    return _signed({**document, "schema_version": version})


def _older_monitor(text):
    document = json.loads(text())
    del document["policy"]
    return _signed({**document, "schema_version": 1})


def _leave_out(content, added, version):
    for name, since in added.items():
        if since > version:
            content.pop(name, None)


def _signed(document):
    content = {key: each for key, each in document.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "sha256": hashlib.sha256(text.encode()).hexdigest()})


# ------------------------------------------------------------------ reading


def _decisions(path):
    new = data.predictions(12, seed=7)
    confidence = np.linspace(0, 1, 12).round(3)
    return subject.decide(path, new.proba, confidence, new.site)


def _calibrated(path):
    return subject.load_calibrator(path, data.predictions(4, seed=5).logits)


READERS = {
    "policy": _decisions,
    "calibrator": _calibrated,
    "monitor": subject.load_monitor,
}
