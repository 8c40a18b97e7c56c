"""The JSON of every command, decisions, refused files, and what a report embeds."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np

from tests.contract import data, subject
from tests.contract.compare import normalised
from tests.contract.running import run
from tests.contract.stored import saved_by_command, write_policy

EVALUATE = {
    "plain": ("model.csv",),
    "levels": ("model.csv", "--target-accuracy", 0.8, "--confidence-level", 0.8),
    "groups": ("model.csv", "--group", "site", "--target-accuracy", 0.85),
    "certify groups": (
        *("model.csv", "--group", "site", "--certify-groups", "--target-accuracy", 0.7),
    ),
    "clusters": ("model.csv", "--cluster", "patient", "--target-accuracy", 0.8),
    "clusters one each": (
        *("model.csv", "--cluster", "patient", "--target-accuracy", 0.8),
        *("--cluster-promise", "one_case_each"),
    ),
    "targets": (
        *("model.csv", "--target-accuracy", 0.8),
        *("--target-accuracy", 0.85, "--target-accuracy", 0.99),
    ),
    "fixed sequence": (*("model.csv", "--method", "fixed_sequence", "--target-accuracy", 0.8),),
    "weights": ("model.csv", "--weight", "importance"),
    "a confidence": ("model.csv", "--confidence", "p_cat"),
    "answers": ("judged.csv", "--target-accuracy", 0.7),
    "two files": ("model.csv", "other.csv", "--target-accuracy", 0.85),
    "two models in a file": (
        *("two.csv", "--probabilities", "p_*", "--probabilities", "q_*"),
        *("--name", "old", "--name", "new"),
    ),
    "models by a column": ("long.csv", "--model-column", "version"),
}
# Other files with the cases of model.csv.
FORMATS = {
    "parquet": ("model.parquet",),
    "jsonl": ("model.jsonl",),
    "npz": ("model.npz",),
    "duckdb": ("model.duckdb", "--query", "SELECT * FROM cases ORDER BY id"),
    "query": ("model.parquet", "--query", "SELECT * FROM file ORDER BY id"),
    "semicolons": ("model.ssv", "--format", "csv", "--delimiter", ";", "--decimal", ","),
    "utf-16": ("model16.csv", "--encoding", "utf-16"),
    "matrix": ("matrix.npz",),
}
HEAD = "label,p_cat,p_dog\n"
# Files that must be refused; the name of the error is the contract, its words are not.
REFUSED = {
    "nothing": b"",
    "a header alone": HEAD.encode(),
    "a short row": f"{HEAD}cat,0.5,0.5\ncat,0.5\n".encode(),
    "a long row": f"{HEAD}cat,0.5,0.5\ncat,0.5,0.5,0.1\n".encode(),
    "a column twice": b"label,p_cat,p_cat\ncat,0.5,0.5\n",
    "text for a number": f"{HEAD}cat,0.5,0.5\ncat,high,0.5\n".encode(),
    "a missing probability": f"{HEAD}cat,0.5,0.5\ncat,,0.5\n".encode(),
    "a probability above one": f"{HEAD}cat,1.5,-0.5\n".encode(),
    "sums that are not one": f"{HEAD}cat,0.5,0.1\ndog,0.2,0.2\n".encode(),
    "a missing label": f"{HEAD}cat,0.5,0.5\n,0.5,0.5\n".encode(),
    "an unknown label": f"{HEAD}cat,0.5,0.5\nowl,0.5,0.5\n".encode(),
    "no label": b"p_cat,p_dog\n0.5,0.5\n",
    "no probabilities": b"label,size\ncat,3\n",
    "infinity": f"{HEAD}cat,inf,0.5\n".encode(),
    "an open quote": f'{HEAD}"cat,0.5,0.5\n'.encode(),
    "not utf-8": HEAD.encode() + b"c\xe4t,0.5,0.5\n",
    "a nul": HEAD.encode() + b"c\x00t,0.5,0.5\n",
}


def entries(folder):
    data.write_files(folder)
    data.write_audits(folder)
    _write_formats(folder)
    made = {
        f"evaluate {name}": partial(_json, folder, "evaluate", *arguments)
        for name, arguments in EVALUATE.items()
    }
    made |= {
        f"evaluate {name}": partial(_same_as_csv, folder, *arguments)
        for name, arguments in FORMATS.items()
    }
    made |= {
        f"refused {name}": partial(_error, folder, content) for name, content in REFUSED.items()
    }
    made["evaluate choose confidence"] = _choose_confidence
    made["wrong use"] = partial(_codes, folder)
    made["desk"] = _desk_commands
    made["report"] = partial(_report, folder)
    return {**made, **_decide(folder), **_monitor(folder), **_lab(folder)}


def _json(folder, *arguments, codes=(0,)):
    result = run(*arguments, "--json", folder=folder, codes=codes)
    answer = normalised(json.loads(result.stdout))
    return answer if codes == (0,) else {"exit code": result.exit_code, **answer}


def _choose_confidence():
    return normalised(json.loads(saved_by_command("chosen confidence")[0]))


# ------------------------------------------------------------------ files


def _write_formats(folder):
    import duckdb

    table = data.columns(data.predictions(data.MODEL))
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE cases AS FROM '{folder / 'model.csv'}'")
    connection.execute(f"COPY cases TO '{folder / 'model.parquet'}'")
    connection.execute(f"ATTACH '{folder / 'model.duckdb'}' AS target")
    connection.execute("CREATE TABLE target.cases AS FROM cases")
    connection.close()
    rows = zip(*(np.asarray(each).tolist() for each in table.values()), strict=True)
    lines = [json.dumps(dict(zip(table, row, strict=True))) for row in rows]
    (folder / "model.jsonl").write_text("\n".join(lines))
    np.savez(folder / "model.npz", **table)
    cases = data.predictions(data.MODEL)
    np.savez(folder / "matrix.npz", y_true=cases.label, y_proba=cases.proba, classes=data.CLASSES)
    text = (folder / "model.csv").read_text("utf-8")
    (folder / "model.ssv").write_text(text.replace(",", ";").replace(".", ","))
    (folder / "model16.csv").write_text(text, "utf-16")
    versions = [data.predictions(data.MODEL, seed=seed, skill=1.8 - 0.4 * seed) for seed in (0, 1)]
    parts = [data.columns(each) for each in versions]
    long = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    data.write_csv(folder / "long.csv", {**long, "version": ["a"] * 150 + ["b"] * 150})


def _same_as_csv(folder, *arguments):
    """The columns of a file; its numbers are those of the CSV file."""
    found = _json(folder, "evaluate", *arguments)["models"][0]
    expected = _of_csv(folder)
    apart = ("name", "file", "columns")
    same = {key: each for key, each in found.items() if key not in apart} == {
        key: each for key, each in expected.items() if key not in apart
    }
    return {"same numbers": same, **{key: found[key] for key in apart}}


@cache
def _of_csv(folder):
    return _json(folder, "evaluate", "model.csv")["models"][0]


def _error(folder, content):
    """The name of the error for a file that is refused, and the command's exit code."""
    (folder / "refused.csv").write_bytes(content)
    result = run("evaluate", "refused.csv", folder=folder, codes=None)
    error = result.exception
    while type(error).__name__ in ("SystemExit", "Exit"):  # raised from the error itself
        error = error.__cause__ or error.__context__
    return {"error": type(error).__name__, "exit code": result.exit_code}


def _codes(folder):
    """Exit codes of commands that are typed wrongly."""
    typed = {
        "no such file": ("evaluate", "nowhere.csv"),
        "no such option": ("evaluate", "model.csv", "--nonsense"),
        "no such command": ("nonsense",),
        "no such policy": ("decide", "nowhere.json", "new.csv"),
        "no such column": ("evaluate", "model.csv", "--label", "nonsense"),
        "target of 97": ("evaluate", "model.csv", "--target-accuracy", 97),
        "a policy that is none": ("decide", "model.csv", "new.csv"),
        "a policy of two models": (
            *("evaluate", "model.csv", "other.csv", "--save-policy", "x.json"),
        ),
        "a policy that cannot be certified": (
            *("evaluate", "small.csv", "--target-accuracy", 0.999, "--save-policy", "x.json"),
        ),
        "version": ("--version",),
        "help": ("evaluate", "--help"),
    }
    return {name: run(*words, folder=folder, codes=None).exit_code for name, words in typed.items()}


def _report(folder):
    """The numbers that a report of two models with groups embeds."""
    files = ("small.csv", "small_other.csv", "--group", "site", "--target-accuracy", 0.8)
    run("evaluate", *files, "--out", "report.html", folder=folder)
    page = (folder / "report.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page, re.S)
    return json.loads(found[1])


# ------------------------------------------------------------------ decide and monitor


def _decide(folder):
    policies = {
        "a policy": ("of a command", "new.csv"),
        "groups": ("of a command with groups", "new.csv", "--group", "site"),
        "clusters": ("of a command with clusters", "new.csv"),
        "chosen confidence": ("chosen confidence", "new_logits.csv"),
        "a confidence": ("of a command on answers", "new_judged.csv"),
        "a policy of Python": ("certified", "new.csv", "--keep", "id", "--keep", "site"),
    }
    new = data.predictions(12, seed=7)
    logits = {f"logit_{name}": new.logits[:, i] for i, name in enumerate(data.CLASSES)}
    data.write_csv(folder / "new_logits.csv", logits)
    made = {
        f"decide {name}": partial(_decisions, folder, *words) for name, words in policies.items()
    }
    made["decide invalid"] = partial(_invalid_decisions, folder)
    made["decide other formats"] = partial(_decision_files, folder)
    return made


def _rows(text):
    header, *rows = csv.reader(io.StringIO(text))
    return {"columns": header, "rows": [",".join(row) for row in rows]}


def _decisions(folder, policy, file, *options):
    write_policy(folder / "policy.json", policy)
    result = run("decide", "policy.json", file, *options, "--out", "d.csv", folder=folder)
    assert result.stdout == ""
    return _rows((folder / "d.csv").read_text("utf-8"))


def _invalid_decisions(folder):
    """Cases that cannot be decided: refused, or delegated with a reason."""
    rows = ["p_cat,p_dog,p_owl", "0.9,0.05,0.05", ",0.5,0.5", "0.9,0.9,0.9", "0.1,0.8,0.1"]
    (folder / "invalid.csv").write_text("\n".join(rows) + "\n")
    write_policy(folder / "policy.json", "of a command")
    words = ("decide", "policy.json", "invalid.csv")
    refused = run(*words, folder=folder, codes=None).exit_code
    found = run(*words, "--invalid", "delegate", folder=folder).stdout
    table = list(csv.DictReader(io.StringIO(found)))
    told = [{**row, "why": "*" if row["why"] else ""} for row in table]
    return {"refused": refused, "delegated": told}


def _decision_files(folder):
    """The same decisions as JSON lines and as Parquet, with the types of its columns."""
    import pyarrow.parquet

    write_policy(folder / "policy.json", "of a command")
    for kind in ("jsonl", "parquet"):
        run("decide", "policy.json", "new.csv", "--out", f"d.{kind}", folder=folder)
    table = pyarrow.parquet.read_table(folder / "d.parquet")
    lines = (folder / "d.jsonl").read_text("utf-8").splitlines()
    return {
        "jsonl": lines[:3],
        "types": {field.name: str(field.type) for field in table.schema},
        "same": [json.loads(line) for line in lines] == table.to_pylist(),
    }


def _monitor(folder):
    watched = {
        "audits": ("audits.csv",),
        "labels": ("labels.csv",),
        "refuted": ("bad_audits.csv",),
        "samples": ("samples.csv", "--least-inclusion-probability", 0.25),
        "blocks": ("audits.csv", "--blocks", 3),
        "arrival": ("audits.csv", "--order", "arrival"),
    }
    made = {
        f"monitor {name}": partial(_watch, folder, "of a command", *words)
        for name, words in watched.items()
    }
    made["monitor groups"] = partial(_watch, folder, "of a command with groups", "audits.csv")
    made["monitor state"] = partial(_watch_twice, folder)
    return made


def _watch(folder, policy, *words):
    write_policy(folder / "policy.json", policy)
    return _json(folder, "monitor", "policy.json", *words, codes=(0, 3))


def _watch_twice(folder):
    """Audits are kept in a file; those that were counted before are skipped."""
    (folder / "state.json").unlink(missing_ok=True)
    first = _watch(folder, "of a command", "more_audits.csv", "--state", "state.json")
    second = _watch(
        folder, "of a command", "audits.csv", "--decided-at", "none", "--state", "state.json"
    )
    stored = normalised(json.loads((folder / "state.json").read_text("utf-8")))
    audits = {name: each and each[-2:] for name, each in stored["audits"].items()}
    return {"first": first, "second": second, "stored": {**stored, "policy": "*", "audits": audits}}


# ------------------------------------------------------------------ lab and desk


def _lab(folder):
    runs = subject.write_runs(folder / "runs")
    each = sorted(path.name for path in runs.iterdir())
    first = [name for name in each if "aucoc" not in name]
    return {
        "lab evaluate": partial(
            _json, runs, "lab", "evaluate", each[0], "--calibrator", "isotonic", "--at", "0.6,0.8"
        ),
        "lab evaluate ensemble": partial(_json, runs, "lab", "evaluate", *first),
        "lab table": partial(_tables, folder),
        "lab rows": partial(_lab_rows, folder),
    }


def _tables(folder):
    return {
        f"{kind} {form}": run(
            *("lab", "table", "runs", "--kind", kind, "--format", form), folder=folder
        ).stdout.splitlines()
        for kind in ("performance", "calibration")
        for form in ("markdown", "csv")
    }


def _lab_rows(folder):
    run("lab", "table", "runs", "--ensembles", "--save-rows", "rows.csv", folder=folder)
    found = _rows((folder / "rows.csv").read_text("utf-8"))
    return {"columns": found["columns"], "number": len(found["rows"]), "first": found["rows"][0]}


def _desk_commands():
    """Rules, a token, a policy, an export and a check, each by a command."""
    with tempfile.TemporaryDirectory(dir=data.MEMORY) as place:
        folder = Path(place)
        write_policy(folder / "policy.json", "of a command")

        def typed(*words, **options):
            return run("desk", *words, "--data", "desk", folder=folder, **options)

        nowhere = typed("verify", codes=None)
        rules = typed("rules", "quality_rate=0.1", "strict=true")
        token = typed("token", "add", "ann", "--role", "reader")
        typed("policy", "activate", "policy.json")
        typed("policy", "withdraw", 1, "--reason", "old")
        typed("export", "cases.csv")
        typed("verify")
        exported = (folder / "cases.csv").read_text("utf-8")
    return {
        "rules": rules.stdout.splitlines(),
        "token": re.sub(r"[\w-]{43}$", "*", token.stdout.strip()),
        "export": _rows(exported),
        "nowhere": nowhere.exit_code,
    }
