"""`expertload evaluate` and `expertload decide`, as they are typed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import expertload
from expertload import Cases
from expertload._format import percent
from expertload.evaluation import evaluate
from expertload.operating_point import certify_groups, load_operating_point
from tests.io.files import CLASSES, predictions, write


def evaluation_of(table, **options):
    proba = np.column_stack([table[f"p_{name}"] for name in CLASSES])
    return evaluate(
        Cases.from_predictions(table["label"], proba, labels=CLASSES, groups=table["group"]),
        **options,
    )


def test_a_report_is_a_page(run, file, tmp_path):
    said = run("evaluate", file, "--out", "report.pdf", code=1).stderr
    assert "'--out' must end in .html. Got report.pdf" in said
    assert not (tmp_path / "report.pdf").exists()


def test_a_summary_for_people(run, file, table):
    text = " ".join(run("evaluate", file, "--target-accuracy", 0.97).stdout.split())
    found = evaluation_of(table, target_accuracy=0.97)
    assert "label: label, probabilities: p_cat, p_dog, p_owl, group: group" in text
    assert f"AUCOC {found.aucoc.estimate:.4f} {found.aucoc.low:.4f} to" in text
    assert found.guarantee in text
    assert found.is_certified
    assert "load at 97 %" in text
    for group in found.groups:
        assert group.name in text


@pytest.mark.slow
def test_json_for_machines_and_nothing_else_on_standard_output(run, file, table):
    result = run("evaluate", file, "--json", "--out", "r.html", "--confidence-level", 0.9)
    printed = json.loads(result.stdout)
    found = evaluation_of(table, confidence_level=0.9).to_dict()
    (model,) = printed["models"]
    assert model["name"] == "model"
    assert model["file"] == "model.csv"
    assert {key: model[key] for key in found} == json.loads(json.dumps(found))
    assert printed["comparisons"] == []
    assert "r.html" in result.stderr


@pytest.mark.slow
def test_two_files_are_two_models_on_the_same_cases(run, file, table, tmp_path):
    other = predictions(2000, seed=1)
    write(tmp_path / "other.parquet", other)
    result = run("evaluate", file, "other.parquet", "--json")
    (comparison,) = json.loads(result.stdout)["comparisons"]
    expected = evaluation_of(other).compare(evaluation_of(table))
    assert comparison["models"] == "other minus model"
    assert comparison["difference"] == expected.difference
    assert comparison["p_value"] == expected.p_value
    text = run("evaluate", file, "other.parquet").stdout
    assert f"{expected}" in text
    write(tmp_path / "shuffled.csv", {k: v[::-1] for k, v in other.items()})
    assert "not compared" in run("evaluate", file, "shuffled.csv", "--id", "none").stdout


@pytest.mark.slow
def test_the_report_has_the_models_by_name(run, file, tmp_path):
    run(
        "evaluate",
        file,
        file,
        "--name",
        "old",
        "--name",
        "new <b>",
        "--out",
        "r.html",
        "--title",
        "T",
    )
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "new &lt;b&gt;" in page
    assert "<title>T</title>" in page
    assert "model.csv (2)" in run("evaluate", "model.csv", "model.csv").stdout


def test_a_policy_names_a_model_only_if_somebody_has(run, file, table, tmp_path):
    """A policy with a name decides only for senders that know it; the file's name says nothing."""
    saving = ("--target-accuracy", 0.97, "--save-policy")
    run("evaluate", file, *saving, "plain.json")
    run("evaluate", file, "--name", "net 7", *saving, "named.json")
    write(tmp_path / "long.csv", {**table, "model": np.full(len(table["label"]), "net 8")})
    run("evaluate", "long.csv", "--model-column", "model", *saving, "column.json")
    names = [
        load_operating_point(tmp_path / f"{policy}.json").origin.model_name
        for policy in ("plain", "named", "column")
    ]
    assert names == [None, "net 7", "net 8"]


def test_evaluate_then_decide(run, file, table, tmp_path):
    result = run("evaluate", file, "--target-accuracy", 0.97, "--save-policy", "policy.json")
    assert "expertload decide policy.json" in result.stdout
    policy = load_operating_point(tmp_path / "policy.json")
    assert policy.is_certified
    new = predictions(500, seed=3)
    write(tmp_path / "new.jsonl", new)
    result = run("decide", "policy.json", "new.jsonl", "--out", "d.csv", "--keep", "id")
    proba = np.column_stack([new[f"p_{name}"] for name in CLASSES])
    n_accepted = int(policy.decide(proba).accepted.sum())
    assert f"500 cases: {n_accepted} decided automatically" in result.stderr
    assert result.stdout == ""
    to_screen = run("decide", "policy.json", "new.jsonl", "--keep", "id")
    assert to_screen.stdout == (tmp_path / "d.csv").read_text()
    assert to_screen.stdout.splitlines()[0] == "row,id,accepted,label,confidence"


def test_a_policy_for_each_group(run, file, table, tmp_path):
    options = ["--target-accuracy", 0.9, "--certify-groups", "--save-policy", "policy.json"]
    result = run("evaluate", file, *options)
    proba = np.column_stack([table[f"p_{name}"] for name in CLASSES])
    expected = certify_groups(
        Cases.from_predictions(table["label"], proba, labels=CLASSES, groups=table["group"]),
        target_accuracy=0.9,
    )
    policy = load_operating_point(tmp_path / "policy.json")
    assert policy == expected
    assert policy.origin.probability_columns == tuple(f"p_{name}" for name in CLASSES)
    assert expected.guarantee in " ".join(result.stdout.split())
    shown = json.loads(run("evaluate", file, *options[:3], "--json").stdout)["models"][0]
    assert [p["threshold"] for p in shown["group_certification"]["points"]] == [
        point.threshold if point.is_certified else None for point in expected.values()
    ]
    new = predictions(300, seed=3)
    write(tmp_path / "new.csv", new)
    run("decide", "policy.json", "new.csv", "--out", "d.csv")
    proba = np.column_stack([new[f"p_{name}"] for name in CLASSES])
    accepted = policy.decide(proba, groups=new["group"]).accepted
    lines = (tmp_path / "d.csv").read_text().splitlines()[1:]
    assert sum(",true," in line.lower() for line in lines) == accepted.sum()


def test_a_policy_for_each_group_of_patients(run, tmp_path):
    """Branch and customer: groups are certified by their clusters, and say so."""
    new = predictions(2000, seed=0)
    new["customer"] = np.array([f"c{row // 2}" for row in range(2000)])
    write(tmp_path / "branches.csv", new)
    run(
        *("evaluate", "branches.csv", "--target-accuracy", 0.8, "--certify-groups"),
        *("--cluster", "customer", "--save-policy", "policy.json"),
    )
    policy = load_operating_point(tmp_path / "policy.json")
    assert policy.certified
    assert {point.clusters for point in policy.values()} == {"all_cases"}
    assert "all cases of new clusters" in policy.guarantee


def test_promises_about_classes(run, file, table, tmp_path):
    """From a file to a policy with a threshold for each answer, and its decisions."""
    last = CLASSES[-1]
    promises = [f"precision:{last}=0.8", f"missed:{last}=0.1"]
    options = ["--promise", promises[0], "--promise", promises[1], "--save-policy", "policy.json"]
    said = " ".join(run("evaluate", file, *options, "--out", "report.html").stdout.split())
    policy = load_operating_point(tmp_path / "policy.json")
    assert [str(promise) for promise in policy.promises] == promises
    assert policy.guarantee in said
    assert f"leave {percent(policy.expert_load)} to experts" in said
    assert f"for {', '.join(promises)}" in (tmp_path / "report.html").read_text()
    shown = json.loads(run("evaluate", file, *options[:4], "--json").stdout)["models"][0]
    assert shown["class_certification"]["expert_load"] == policy.expert_load
    new = predictions(300, seed=3)
    write(tmp_path / "new.csv", new)
    run("decide", "policy.json", "new.csv", "--out", "d.csv")
    proba = np.column_stack([new[f"p_{name}"] for name in CLASSES])
    accepted = policy.decide(proba).accepted
    lines = (tmp_path / "d.csv").read_text().splitlines()[1:]
    assert [",true," in line.lower() for line in lines] == accepted.tolist()
    assert "--promise must" in run("evaluate", file, "--promise", "recall:x=1", code=1).stderr


def test_promises_about_classes_in_each_group(run, file, table, tmp_path):
    """From a file to a policy with a threshold for each answer of each group, and decisions."""
    last = CLASSES[-1]
    promises = [f"precision:{last}=0.9", f"missed:{last}=0.05"]
    given = ["--promise", promises[0], "--promise", promises[1], "--certify-groups"]
    options = [*given, "--save-policy", "policy.json"]
    said = " ".join(run("evaluate", file, *options, "--out", "report.html").stdout.split())
    policy = load_operating_point(tmp_path / "policy.json")
    sites = sorted(set(table["group"].tolist()))
    assert list(policy) == sites
    assert set(policy.promises) == {f"{site}: {promise}" for site in sites for promise in promises}
    assert policy.guarantee in said
    assert f"{sites[0]}, {last}" in said
    shown = json.loads(run("evaluate", file, *options[:-2], "--json").stdout)["models"][0]
    found = shown["group_certification"]
    assert found["expert_load"] == policy.expert_load
    assert {(each["group"], each["answer"]) for each in found["points"]} == {
        (site, answer) for site in sites for answer in policy[site]
    }
    new = predictions(300, seed=3)
    write(tmp_path / "new.csv", new)
    run("decide", "policy.json", "new.csv", "--out", "d.csv")
    proba = np.column_stack([new[f"p_{name}"] for name in CLASSES])
    accepted = policy.decide(proba, groups=new["group"]).accepted
    assert 0 < accepted.sum() < 300
    lines = (tmp_path / "d.csv").read_text().splitlines()[1:]
    assert [",true," in line.lower() for line in lines] == accepted.tolist()
    refused = run("monitor", "policy.json", "d.csv", code=1).stderr
    assert "no column 'group' in d.csv" in refused


def test_the_screen_and_the_report_show_the_policy_that_is_saved(run, file, tmp_path):
    """Not the threshold for all cases: its load is another."""
    options = ["--target-accuracy", 0.9, "--certify-groups", "--save-policy", "policy.json"]
    said = " ".join(run("evaluate", file, *options, "--out", "report.html").stdout.split())
    policy = load_operating_point(tmp_path / "policy.json")
    load = f"leave {percent(policy.expert_load)} to experts"
    assert load in said
    assert load in (tmp_path / "report.html").read_text()


def test_groups_that_cannot_be_certified(run, file, table, tmp_path):
    declined = run("evaluate", file, "--certify-groups", "--group", "none", code=1)
    assert "needs a column of groups" in declined.stderr
    rows = {**table, "group": np.where(table["id"] == 7, "", table["group"])}
    write(tmp_path / "gaps.csv", rows)
    refused = run("evaluate", "gaps.csv", "--certify-groups", code=1).stderr
    row = table["id"].tolist().index(7) + 1
    assert f"'group' of gaps.csv names no group in row {row}, and in 1 row(s)" in refused
    assert "(missing)" in run("evaluate", "gaps.csv").stdout
    write(tmp_path / "few.csv", predictions(40))
    saving = ["--certify-groups", "--save-policy", "p.json"]
    assert "No policy was saved" in run("evaluate", "few.csv", *saving, code=1).stderr


@pytest.mark.slow
def test_cases_that_belong_together(run, table, tmp_path):
    rows = {**table, "patient": np.array([f"p{i // 4}" for i in range(2000)])}
    write(tmp_path / "scans.csv", rows)
    warned = run("evaluate", "scans.csv", "--target-accuracy", 0.9)
    assert "'patient' of scans.csv has 500 distinct values for 2000 cases" in warned.stderr
    assert "--cluster patient" in warned.stderr
    declined = run("evaluate", "scans.csv", "--cluster", "none")
    assert "Warning" not in declined.stderr
    for promise, words in (
        ("all_cases", "all cases of new clusters"),
        ("one_case_each", "one case drawn at random from each new cluster"),
    ):
        said = run(
            *("evaluate", "scans.csv", "--target-accuracy", 0.8, "--cluster", "patient"),
            *("--cluster-promise", promise, "--save-policy", f"{promise}.json"),
        )
        assert "Warning" not in said.stderr
        text = " ".join(said.stdout.split())
        assert words in text
        assert load_operating_point(tmp_path / f"{promise}.json").clusters == promise
    once = {**table, "patient": np.array([f"p{i}" for i in range(2000)])}
    write(tmp_path / "once.csv", once)
    assert "Warning" not in run("evaluate", "once.csv").stderr
    gaps = {**table, "patient": np.array(["" if i == 7 else f"p{i // 4}" for i in range(2000)])}
    write(tmp_path / "gaps.csv", gaps)
    said = run("evaluate", "gaps.csv", "--cluster", "patient", code=1).stderr
    assert "names no cluster in row 8" in said
    assert "has 500 distinct values for 1999 cases" in run("evaluate", "gaps.csv").stderr


@pytest.mark.parametrize("column", ["Kundennr", "customer_id", "case_no", "memberNo", "client"])
def test_any_identifier_that_repeats_is_named(run, tmp_path, column):
    rows = {**predictions(200), column: np.array([f"k{i // 2}" for i in range(200)])}
    write(
        tmp_path / "claims.csv",
        {**rows, "scan_no": np.arange(200)} if column != "case_no" else rows,
    )
    warned = run("evaluate", "claims.csv").stderr
    assert f"'{column}' of claims.csv has 100 distinct values for 200 cases" in warned


@pytest.mark.parametrize("column", ["scanner_no", "grid", "note", "paid", "customer_type"])
def test_other_columns_are_not_taken_for_identifiers(run, tmp_path, column):
    rows = {**predictions(200), column: np.arange(200) % 7}
    write(tmp_path / "claims.csv", rows)
    assert "Warning" not in run("evaluate", "claims.csv").stderr


def test_decide_names_the_load_expected_and_a_shift(run, file, tmp_path):
    options = ["--target-accuracy", 0.95, "--certify-groups", "--save-policy"]
    run("evaluate", file, *options[:2], "--save-policy", "one.json")
    renamed = {("branch" if k == "group" else k): v for k, v in predictions(2000).items()}
    write(tmp_path / "branches.csv", renamed)
    run("evaluate", "branches.csv", "--group", "branch", *options, "groups.json")
    new = {("branch" if k == "group" else k): v for k, v in predictions(1500, seed=3).items()}
    new = {k: v[np.argsort(new[f"p_{CLASSES[0]}"])] for k, v in new.items()}  # sorted files too
    write(tmp_path / "new.csv", new)
    doubtful = dict(new)
    for name in CLASSES:
        doubtful[f"p_{name}"] = 0.5 * new[f"p_{name}"] + 0.5 / len(CLASSES)
    write(tmp_path / "doubtful.csv", doubtful)
    for name in ("one.json", "groups.json"):  # the policy remembers its group column
        load = load_operating_point(tmp_path / name).expert_load
        said = run("decide", name, "new.csv", "--out", "d.csv").stderr
        assert f"these were {percent(1 - load)} and {percent(load)}." in said
        assert "Warning" not in said
        said = run("decide", name, "doubtful.csv", "--out", "d.csv").stderr
        assert "Warning: the share delegated is higher than the policy was made with" in said


def test_decide_takes_no_clusters_for_a_shift(run, tmp_path):
    """Twenty cases of each patient, much alike: other patients are not another kind of cases."""
    rng, said = np.random.default_rng(0), []
    for name, certainty in (("old", 0.5), ("new", 0.8)):
        patient = np.repeat(np.arange(100), 20)
        share = (rng.random(100) < certainty)[patient] * 0.4 + 0.55
        truth = np.where(rng.random(2000) < 0.97, "a", "b")
        rows = {"patient": patient, "y_true": truth, "p_a": share, "p_b": 1 - share}
        write(tmp_path / f"{name}.csv", rows)
    options = ("--target-accuracy", 0.8, "--save-policy", "policy.json")
    for cluster in ("patient", "none"):
        run("evaluate", "old.csv", "--cluster", cluster, *options)
        said.append(run("decide", "policy.json", "new.csv", "--out", "d.csv").stderr)
    assert all("When the policy was made, these were" in each for each in said)
    assert "Warning" not in said[0]
    assert "the distribution of confidences differs" in said[1]  # the control: taken for single


def test_several_targets_are_certified_at_once(run, file):
    text = " ".join(
        run("evaluate", file, "--target-accuracy", 0.9, "--target-accuracy", 0.8).stdout.split()
    )
    assert "target threshold automated load right when automatic" in text
    assert "All of these hold together, with 95 % confidence." in text
    found = json.loads(
        run("evaluate", file, "--json", "--target-accuracy", 0.9, "--target-accuracy", 0.8).stdout
    )
    points = found["models"][0]["target_certification"]
    assert [point["target_accuracy"] for point in points] == [0.8, 0.9]
    assert points[0]["expert_load"] <= points[1]["expert_load"]
    assert points[1]["threshold"] == found["models"][0]["operating_point"]["threshold"]


def test_nothing_certified_saves_no_policy_but_still_says_what_was_found(run, tmp_path):
    write(tmp_path / "few.csv", predictions(40))
    result = run("evaluate", "few.csv", "--save-policy", "policy.json", code=1)
    assert "AUCOC" in result.stdout
    assert "No policy was saved" in result.stderr
    assert not (tmp_path / "policy.json").exists()


def test_many_groups_show_the_worst(run, tmp_path, table):
    write(tmp_path / "m.csv", {**table, "group": table["id"] % 40})
    text = run("evaluate", "m.csv").stdout
    assert "worst groups" in text
    assert "and 35 more" in text


def test_the_screen_says_what_of_the_log_loss_is_clipped(run, tmp_path):
    (tmp_path / "x.csv").write_text("label,p_a,p_b\na,1,0\nb,0,1\nb,1,0\na,0.6,0.4\n")
    shown = " ".join(run("evaluate", "x.csv").stdout.split())
    assert " 1 true classes of probability 0; log loss uses the smallest positive number" in shown
    (tmp_path / "x.csv").write_text("label,p_a,p_b\na,1,0\nb,0,1\nb,0.9,0.1\na,0.6,0.4\n")
    assert "log loss uses" not in run("evaluate", "x.csv").stdout


def test_weights_and_grades(run, tmp_path):
    rows = "\n".join(f"{i % 5 / 4},{i},{i % 3}" for i in range(50))
    (tmp_path / "g.csv").write_text(f"correct,confidence,sample_weight\n{rows}\n")
    text = " ".join(run("evaluate", "g.csv").stdout.split())
    assert "weight: sample_weight" in text
    assert "cannot be certified" in text
    assert "calibration" not in text
    declined = run("evaluate", "g.csv", "--weight", "none").stdout
    assert "sample_weight" not in declined
    named = run("evaluate", "g.csv", "--group", "none", "--weight", "correct").stdout
    assert "weight: correct" in " ".join(named.split())


@pytest.mark.slow
def test_names_of_strangers_never_command_the_terminal(run, tmp_path, table):
    """Labels, groups, models and files may hold escapes; none of them reaches the screen."""
    nasty = "\x1b]0;owned\x07\x1b[2J\u202eevil\x9b31m"
    classes = {"cat": f"cat{nasty}"}
    changed = {name.replace("cat", classes["cat"]): each for name, each in table.items()}
    changed["label"] = np.array([classes.get(each, each) for each in table["label"]])
    changed["group"] = np.where(table["id"] % 2, f"A{nasty}\nAll is certified.", "B")
    name = f"m{nasty}.csv"
    write(tmp_path / name, changed)
    for arguments in (["evaluate", name], ["evaluate", name, "--json"], ["evaluate", name, name]):
        said = run(*arguments).output
        assert not set(said) & set("\x1b\x07\u202e\x9b")
    assert "\nAll is certified." not in run("evaluate", name).stdout
    assert "␛]0;owned␇" in run("evaluate", name).stdout
    wrong = run("evaluate", f"no{nasty}.csv", code=1).stderr
    assert not set(wrong) & set("\x1b\x07\u202e\x9b")


def test_a_database(run, tmp_path, table):
    write(tmp_path / "cases.duckdb", table)
    result = run("evaluate", "cases.duckdb", "--query", "FROM cases LIMIT 100", "--json")
    assert json.loads(result.stdout)["models"][0]["n_cases"] == 100


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["evaluate", "none.csv"], "There is no file"),
        (["evaluate", "model.csv", "--label", "truth"], "There is no column 'truth'"),
        (["evaluate", "model.csv", "--target-accuracy", "97"], "pass 0.97 for 97 %"),
        (["evaluate", "model.csv", "--confidence-level", "95"], "--confidence-level must"),
        (["evaluate", "model.csv", "--method", "magic"], "fixed_sequence"),
        (["evaluate", "model.csv", "--out", "no/r.html"], "There is no folder no"),
        (["evaluate", "model.csv", "--save-policy", "no/p.json"], "There is no folder no"),
        (["evaluate", "model.csv", "--out", "."], "could not be written"),
        (["evaluate", "model.csv", "--query", "SELECT 1"], "It has the columns 1"),
        (["decide", "none.json", "model.csv"], "There is no policy none.json"),
        (["decide", "model.csv", "model.csv"], "The policy comes first"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_exit_code_one(run, file, tmp_path, arguments, says):
    assert says in run(*arguments, code=1).stderr
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "model.csv", "--out", "model.csv"],
        ["evaluate", "model.csv", "--save-policy", "model.csv"],
        ["evaluate", "other.csv", "model.csv", "--out", "./model.csv"],
        ["evaluate", "model.csv", "--out", "link.html"],
        ["evaluate", "model.csv", "--out", "new.html", "--save-policy", "new.html"],
        ["decide", "policy.json", "model.csv", "--out", "model.csv"],
        ["decide", "policy.json", "model.csv", "--out", "policy.json"],
    ],
)
def test_nothing_is_written_over_what_is_read(run, file, tmp_path, arguments):
    (tmp_path / "other.csv").write_bytes(file.read_bytes())
    (tmp_path / "link.html").symlink_to(file)
    run("evaluate", "model.csv", "--target-accuracy", 0.9, "--save-policy", "policy.json")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "would replace" in run(*arguments, code=1).stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate"],
        ["evaluate", "model.csv", "--target-accuracy", "high"],
        ["evaluate", "model.csv", "model.csv", "--save-policy", "p.json"],
        ["evaluate", "model.csv", "--name", "a", "--name", "b"],
        ["evaluate", "a.csv", "b.csv", "--probabilities", "a_*", "--probabilities", "b_*"],
        ["evaluate", "a.csv", "b.csv", "--model-column", "model"],
        ["evaluate", "model.csv", "--nonsense"],
        ["decide", "policy.json"],
    ],
)
def test_misuse_is_exit_code_two(run, file, arguments):
    run(*arguments, code=2)


@pytest.mark.processes
def test_help_imports_nothing_heavy_and_shows_the_patterns():
    code = (
        "import sys; from typer.testing import CliRunner; from expertload.cli.app import app;"
        "print(CliRunner().invoke(app, ['evaluate', '--help']).stdout);"
        "print([m for m in ('duckdb', 'jinja2', 'torch', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(expertload.__file__).parents[1]), "COLUMNS": "200"},
    )
    assert "`p_*`, `prob_*` or `proba_*`" in " ".join(done.stdout.split())
    assert done.stdout.rstrip().endswith("[]")


def test_the_class_of_a_single_column_is_said(run, tmp_path):
    """Of text labels the second in sorted order, which nobody sees in a name like `score`."""
    rng = np.random.default_rng(0)
    well = rng.beta(0.3, 0.3, 400)
    rows = [f"{'well' if u < p else 'ill'},{p}" for p, u in zip(well, rng.random(400), strict=True)]
    (tmp_path / "one.csv").write_text("\n".join(["label,score", *rows]) + "\n")
    (tmp_path / "new.csv").write_text("score\n0.9\n0.1\n")
    options = ("--probabilities", "score", "--target-accuracy", 0.8, "--save-policy", "p.json")
    assert "probabilities: score (of well)" in run("evaluate", "one.csv", *options).stdout
    found = run("evaluate", "one.csv", *options, "--json").stdout
    assert json.loads(found)["models"][0]["columns"]["classes"] == ["well"]
    decided = run("decide", "p.json", "new.csv", "--out", "decisions.csv")
    assert "probabilities: score (of well)" in decided.stderr + decided.stdout


@pytest.mark.parametrize("target", [0.5, 0.999])
def test_intervals_and_comparisons_are_of_clusters(run, tmp_path, target):
    """Four copies of each case are worth one case."""
    table = {name: np.repeat(values[:500], 4) for name, values in predictions(2000).items()}
    patient = np.array([f"q{i // 4}" for i in range(2000)])
    write(tmp_path / "model.csv", {**table, "patient": patient})
    once = {name: values[::4] for name, values in table.items()}
    write(tmp_path / "once.csv", once)
    options = ("--target-accuracy", target, "--json", "--id", "none")
    (found,), (alone,) = (
        json.loads(run("evaluate", *each, *options).stdout)["models"]
        for each in (("model.csv", "--cluster", "patient"), ("once.csv",))
    )
    for end in ("low", "high"):
        assert found["aucoc"][end] == pytest.approx(alone["aucoc"][end], abs=1e-9)
        assert found["accuracy"][end] == pytest.approx(alone["accuracy"][end], abs=1e-3)


def test_targets_that_are_next_to_each_other_are_told_apart(run, tmp_path):
    """99.71 % and 99.74 % are not both 99.7 %, and the first is not left out."""
    rows = "".join(f"1,{i / 4000}\n" for i in range(4000))
    (tmp_path / "c.csv").write_text("correct,confidence\n" + rows)
    targets = ("--target-accuracy", 0.9971, "--target-accuracy", 0.9974)
    said = run("evaluate", "c.csv", *targets).stdout
    for target in ("99.71 %", "99.74 %"):
        assert re.search(rf"^{target} ", said, re.MULTILINE)
        assert f"load at {target}" in said
    promise = " ".join(run("evaluate", "c.csv", "--target-accuracy", 0.9975).stdout.split())
    assert "at least 99.75 % of its decisions will be right" in promise


def test_groups_without_a_promise_say_why_and_what_would_be_enough(run, tmp_path):
    rng = np.random.default_rng(0)
    shown = rng.beta(0.2, 0.2, 800)
    rows = ["customer,branch,p_yes,label"]
    for i, p in enumerate(shown):
        rows.append(f"k{i // 4},b{i // 400},{p:.6f},{'yes' if rng.random() < p else 'no'}")
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    options = ["--group", "branch", "--certify-groups", "--cluster", "customer"]
    ran = run("evaluate", "a.csv", *options, "--save-policy", "p.json", code=1)
    said = " ".join(ran.stdout.split())
    assert "b0: 400 case(s) in these clusters are too few, even if all were right" in said
    assert "A target of 0." in said
    assert "--cluster-promise one_case_each" in said
    assert "No policy was saved, because nothing is certified" in ran.stderr
    assert "For comparison: one threshold for all cases" in ran.stdout


def test_labels_without_a_column_are_named(run, tmp_path):
    (tmp_path / "a.csv").write_text("Truth,cat,Dog\ncat,0.9,0.1\ndog,0.2,0.8\n")
    said = run("evaluate", "a.csv", "--label", "Truth", code=1).stderr
    assert "no column has the name of dog, which the label 'Truth' holds" in said


@pytest.mark.parametrize(
    ("row", "hint"), [('"0,9","0,1"', "pass --decimal ','"), ("90,10", "divide by 100")]
)
def test_rows_that_cannot_be_decided_say_what_may_help(run, file, tmp_path, table, row, hint):
    run("evaluate", file, "--target-accuracy", 0.9, "--save-policy", "p.json")
    names = [name for name in table if name.startswith("p_")]
    (tmp_path / "new.csv").write_text(f"{','.join(names)}\n{row},0\n")
    assert hint in run("decide", "p.json", "new.csv", code=1).stderr
