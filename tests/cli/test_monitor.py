"""`expertload monitor`, as it is typed."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from matplotlib import image, pyplot

from expertload import Cases, operating_point
from expertload._store import digest
from expertload.exceptions import FileFormatError, ParameterError
from expertload.io import draw_audits
from expertload.monitoring import AccuracyMonitor, evidence_path


@pytest.fixture
def run_command(run):
    return run.func if isinstance(run, partial) else run


@pytest.fixture
def run(run):
    yield partial(run, "monitor")
    pyplot.close("all")


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.json"
    operating_point.certify(
        Cases.from_correctness([1] * 300, range(300)), target_accuracy=0.95
    ).save(path)
    return path


def audits(path, correct, **columns):
    rows = [",".join(["key", "correct", *columns])]
    for i, grade in enumerate(correct):
        rows.append(",".join([f"case{i}", str(grade), *(str(v[i]) for v in columns.values())]))
    path.write_text("\n".join(rows) + "\n")
    return path


def stream(n, accuracy, seed=0):
    return (np.random.default_rng(seed).random(n) < accuracy).astype(int).tolist()


def test_states_and_their_codes(run, policy, tmp_path):
    file = tmp_path / "audits.csv"
    assert "Confirmed" in run(policy, audits(file, [1] * 100)).stdout
    assert "Not refuted" in run(policy, audits(file, [1] * 20)).stdout
    said = run(policy, audits(file, stream(300, 0.8)), code=3).stdout
    assert "Refuted" in said
    assert "audits.csv: correct: correct, key: key" in said


@pytest.mark.slow
def test_json_says_what_the_monitor_says(run, policy, tmp_path):
    correct = stream(120, 0.97)
    days = [f"2026-01-{1 + i // 6:02d}" for i in range(120)]
    file = audits(tmp_path / "a.csv", correct, decided_at=days)
    said = json.loads(run(policy, file, "--json", "--out", "evidence.svg").stdout)
    watched = AccuracyMonitor(target_accuracy=0.95).update(correct)
    assert said["evidence"] == pytest.approx(watched.evidence)
    assert said["lower_bound"] == pytest.approx(watched.lower_bound)
    assert (said["state"], said["n_audits"], said["n_new"]) == (watched.state, 120, 120)


def test_rows_come_in_any_order_and_words_will_do(run, policy, tmp_path):
    file = tmp_path / "audits.jsonl"
    rows = [
        {"id": 3, "is_correct": None, "decided_at": "2026-03-03"},
        {"id": 1, "is_correct": "yes", "decided_at": "2026-03-01"},
        {"id": 2, "is_correct": "no", "decided_at": "2026-03-02"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    said = json.loads(run(policy, file, "--json").stdout)
    assert said["evidence"] == pytest.approx(evidence_path([1, 0, 1], target_accuracy=0.95)[-1])
    assert (said["n_open"], said["n_errors"]) == (1, 1)


def test_labels_are_compared_as_classes(run, policy, tmp_path):
    file = tmp_path / "audits.csv"
    file.write_text("prediction,y_true\n1,1.0\n0,1\n2,\n")
    said = json.loads(run(policy, file, "--json").stdout)
    assert (said["n_audits"], said["n_errors"], said["n_open"]) == (3, 1, 1)


def test_the_state_goes_on_and_nothing_counts_twice(run, policy, tmp_path):
    file, correct = tmp_path / "audits.csv", stream(90, 0.95)
    open_ones = [*correct[:58], "", ""]
    run(policy, audits(file, open_ones), "--state", "state.json")
    assert AccuracyMonitor.load(tmp_path / "state.json").n_open == 2
    said = run(policy, audits(file, correct), "--state", "state.json").stdout
    assert "58 of its rows were counted before." in said
    again = json.loads(run(policy, file, "--state", "state.json", "--json").stdout)
    whole = AccuracyMonitor(target_accuracy=0.95).update(correct)
    assert again["n_new"] == 0
    assert again["evidence"] == pytest.approx(whole.evidence)
    assert again["n_errors"] == whole.n_errors


@pytest.mark.parametrize("written", ["{}.0", " {}", "{} "])
def test_a_key_in_another_spelling_is_the_same_case(run, policy, tmp_path, written):
    """As pandas writes whole numbers beside missing ones, and spreadsheets whatever was typed."""
    file, correct = tmp_path / "a.csv", stream(60, 0.97)

    def save(spelling):
        rows = [f"{spelling.format(i)},{grade}" for i, grade in enumerate(correct)]
        file.write_text("\n".join(["key,correct", *rows]) + "\n")
        return file

    first = json.loads(run(policy, save("{}"), "--state", "state.json", "--json").stdout)
    again = json.loads(run(policy, save(written), "--state", "state.json", "--json").stdout)
    assert again["n_new"] == 0
    assert again["n_audits"] == first["n_audits"] == 60
    file.write_text(f"key,correct\n1,1\n{written.format(1)},1\n")
    assert "given twice" in run(policy, file, code=1).stderr


def test_keys_of_an_earlier_state_are_found_as_they_were_written(run, policy, tmp_path):
    file, state = tmp_path / "a.csv", tmp_path / "state.json"
    promised = operating_point.load_operating_point(policy)
    watched = AccuracyMonitor.from_policy(promised)
    watched.update([1, np.nan], key=["1.0", "2.0"]).save(state)
    file.write_text("key,correct\n1,1\n2.0,1\n3,1\n")
    said = json.loads(run(policy, file, "--state", "state.json", "--json").stdout)
    assert (said["n_new"], said["n_audits"]) == (2, 3)


def test_a_changed_label_is_refused_and_the_state_stays(run, policy, tmp_path):
    file = tmp_path / "audits.csv"
    run(policy, audits(file, [1, 1]), "--state", "state.json")
    before = (tmp_path / "state.json").read_bytes()
    error = run(policy, audits(file, [1, 0, 1]), "--state", "state.json", code=1).stderr
    assert "'case1' again: it already has its label" in error
    assert (tmp_path / "state.json").read_bytes() == before


def test_uneven_probabilities_need_the_least(run, policy, tmp_path):
    file = audits(tmp_path / "a.csv", [1, 0], inclusion_probability=[0.1, 0.4])
    assert "least_inclusion_probability" in run(policy, file, code=1).stderr
    said = json.loads(run(policy, file, "--least-inclusion-probability", 0.1, "--json").stdout)
    wanted = evidence_path([1, 0], target_accuracy=0.95, weight=[1, 0.25])[-1]
    assert said["evidence"] == pytest.approx(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_picture_is_drawn(run, policy, tmp_path, kind):
    file = audits(tmp_path / "a.csv", stream(300, 0.8))
    out = tmp_path / f"evidence.{kind}"
    assert "The plot is in" in run(policy, file, "--out", out, code=3).stdout
    assert out.stat().st_size > 5000
    if kind == "png":
        picture = image.imread(out)
        assert 0.01 < np.mean(picture[..., :3].min(axis=2) < 0.8) < 0.5


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("key,right\na,1\n", [], "must show whether each decision was right"),
        ("key,correct\na,maybe\n", [], "must hold numbers"),
        ("key,correct\na,1\na,1\n", [], "'a' again: it is given twice"),
        ("key,correct\n,1\n", [], "lacks a value in row 1"),
        ("correct\n1\n", ["--state", "s.json"], "has no keys"),
        ("correct,inclusion_probability\n1,1.5\n", [], "in (0, 1]"),
        ("correct,decided_at\n1,soon\n", [], "must hold dates"),
        ("correct,decided_at\n1,09.04.2026\n", [], "strptime(\\\"decided_at\\\", '%d.%m.%Y')"),
        ("decided,label\n,a\n", [], "only automatic decisions can be audited"),
        ("key,correct\n", [], "no audits"),
        ("key,correct\na,1\n", ["--out", "x.txt"], "The plot must be written as"),
        ("key,correct\na,1\n", ["--order", "random"], "'decision', 'arrival'"),
        ("key,correct\na,1\n", ["--correct", "nothing"], "There is no column 'nothing'"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(run, policy, tmp_path, content, arguments, words):
    file = tmp_path / "audits.csv"
    file.write_text(content)
    error = run(policy, file, *arguments, code=1).stderr
    assert words in error.replace("\n", " ")


def test_policies_without_a_promise_are_refused(run, tmp_path):
    file = audits(tmp_path / "a.csv", [1])
    assert "There is no policy" in run("nowhere.json", file, code=1).stderr
    path = tmp_path / "policy.json"
    operating_point.certify(Cases.from_correctness([1, 1], [1, 2]), target_accuracy=0.95).save(path)
    assert "delegates everything" in run(path, file, code=1).stderr


@pytest.mark.parametrize(
    ("correct", "confidence", "target"),
    [
        ([1] * 300, range(300), 0.9),
        ([1] * 300, range(1, 301), 0.95),
        ([0] + [1] * 299, range(300), 0.95),
        ([1] * 400, range(400), 0.95),
    ],
)
def test_another_policy_does_not_go_on_from_this_state(
    run, policy, tmp_path, correct, confidence, target
):
    file = audits(tmp_path / "a.csv", [1])
    run(policy, file, "--state", "state.json")
    before = (tmp_path / "state.json").read_bytes()
    other = tmp_path / "other.json"
    operating_point.certify(
        Cases.from_correctness(correct, confidence), target_accuracy=target
    ).save(other)
    error = run(other, file, "--state", "state.json", code=1).stderr
    assert "state.json must hold audits of" in error
    assert "Got audits of another policy" in error
    assert (tmp_path / "state.json").read_bytes() == before


def test_the_same_policy_saved_again_goes_on(run, policy, tmp_path):
    file = audits(tmp_path / "a.csv", [1])
    run(policy, file, "--state", "state.json")
    again = tmp_path / "again.json"
    operating_point.load_operating_point(policy).save(again, model_name="the same, renamed")
    said = json.loads(run(again, file, "--state", "state.json", "--json").stdout)
    assert (said["n_audits"], said["n_new"]) == (1, 0)


def test_other_ways_of_watching_are_another_promise(run, policy, tmp_path):
    file = audits(tmp_path / "a.csv", [1])
    run(policy, file, "--state", "state.json")
    error = run(policy, file, "--state", "state.json", "--blocks", 24, code=1).stderr
    assert "Got blocks 24 and None" in error


def test_a_state_of_the_first_schema_is_taken_and_tied(run, policy, tmp_path):
    file, state = audits(tmp_path / "a.csv", [1]), tmp_path / "state.json"
    run(policy, file, "--state", "state.json")
    document = json.loads(state.read_text())
    del document["policy"]
    document["schema_version"] = 1
    document["sha256"] = digest(document)
    state.write_text(json.dumps(document))
    assert json.loads(run(policy, file, "--state", state, "--json").stdout)["n_new"] == 0
    assert AccuracyMonitor.load(state).policy_digest is not None


@pytest.mark.processes
def test_runs_at_the_same_time_lose_no_audits(policy, tmp_path):
    """Each reads the audits of the others, adds its own, and writes all of them."""
    runs = []
    for i in range(4):
        file = tmp_path / f"audits{i}.csv"
        file.write_text("key,correct\n" + "".join(f"{i}-{j},1\n" for j in range(5)))
        command = [sys.executable, "-m", "expertload", "monitor", policy, file]
        runs.append(subprocess.Popen([*command, "--state", tmp_path / "state.json"]))
    assert [each.wait() for each in runs] == [0] * 4
    assert AccuracyMonitor.load(tmp_path / "state.json").n_audits == 20


def test_audits_of_groups_are_counted_together_and_this_is_said(run, policy, tmp_path):
    """Each group was promised its accuracy; the mean of all may hide one that fails."""
    by_group = tmp_path / "groups.json"
    operating_point.certify_groups(
        Cases.from_correctness([1] * 600, range(600), groups=["north", "south"] * 300),
        target_accuracy=0.95,
    ).save(by_group)
    file = audits(tmp_path / "audits.csv", [1] * 100)
    assert "every group, and audits are counted together" in run(by_group, file).stdout
    assert "every group" not in run(policy, file).stdout


@pytest.mark.parametrize("errors_first", [True, False])
def test_rows_sorted_by_their_answers_are_refused(run, policy, tmp_path, errors_first):
    """The promise is kept: 3 % of 600 are wrong. In this order, it would be called refuted."""
    correct = sorted(stream(600, 0.97), reverse=not errors_first)
    file = audits(tmp_path / "sorted.csv", correct)
    said = run(policy, file, "--state", "state.json", code=1).stderr
    assert "sorted by whether the decision was right" in said
    assert not (tmp_path / "state.json").exists()
    assert "Refuted" in run(policy, file, "--order", "decision", code=3).stdout
    dated = audits(tmp_path / "dated.csv", correct, decided_at=["2026-01-01"] * 600)
    assert "Refuted" not in run(policy, dated).stdout
    assert "Refuted" not in run(policy, audits(file, [1] * 30 + [0])).stdout


def test_a_stream_for_each_promise_about_classes(run, tmp_path):
    """Precision from the answers of the class, misses from its cases, delegated ones included."""
    rng = np.random.default_rng(0)
    shown = rng.beta(0.3, 0.6, 3000)
    y_true = np.where(rng.random(3000) < shown, "bad", "good")
    cases = Cases.from_predictions(y_true, shown, labels=["bad", "good"][::-1])
    promises = ["precision:bad=0.9", "missed:bad=0.05"]
    policy = operating_point.certify_classes(cases, promises=promises)
    policy.save(tmp_path / "classes.json")
    new = rng.beta(0.3, 0.6, 1500)
    accepted, answer = policy.decide(new)
    rows = ["id,decided,accepted,label"]
    for kept, said, probability in zip(accepted, answer, new, strict=True):
        truth = "bad" if rng.random() < probability else "good"
        rows.append(f"{len(rows)},{said},{kept},{truth}")
    file = tmp_path / "month.csv"
    file.write_text("\n".join(rows) + "\n")
    said = json.loads(run("classes.json", file, "--json").stdout)
    assert [each["promise"] for each in said["promises"]] == promises
    assert {each["state"] for each in said["promises"]} <= {"confirmed", "not refuted"}
    truth = np.array([row.split(",")[3] for row in rows[1:]])
    assert said["promises"][0]["n_audits"] == (accepted & (answer == "bad")).sum()
    assert said["promises"][1]["n_audits"] == (truth == "bad").sum()
    one = ["--promise", "missed:bad=0.05", "--state", "state.json"]
    assert "missing at most 0.05 of 'bad'" in run("classes.json", file, *one).stdout
    assert "were counted before" in run("classes.json", file, *one).stdout
    run("classes.json", file, "--state", "state.json", code=2)
    run("classes.json", file, "--promise", "missed:good=0.05", code=1)
    bad = [row.replace("good,True,bad", "good,True,bad") for row in rows]
    bad += [f"x{i},good,True,bad" for i in range(60)]  # all of them missed
    file.write_text("\n".join(bad) + "\n")
    refuted = run("classes.json", file, "--order", "decision", code=3).stdout
    assert "Refuted: missing at most 0.05 of 'bad' has not been kept" in " ".join(refuted.split())


def test_from_branches_and_customers_to_a_monthly_check(run_command, tmp_path):
    """Evaluate, decide, sample, audit and monitor, without a notebook of one's own."""
    rng = np.random.default_rng(0)

    def month(n, name):
        shown = rng.beta(0.2, 0.2, n)
        truth = np.where(rng.random(n) < shown, "yes", "no")
        rows = ["id,Kundennr,branch,p_yes,label"]
        for i in range(n):
            branch = "north" if i % 2 else "south"
            rows.append(f"{name}{i},k{i // 4},{branch},{shown[i]:.6f},{truth[i]}")
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
        return dict(zip([row.split(",")[0] for row in rows[1:]], truth, strict=True))

    month(4000, "past")
    group = ["--group", "branch", "--certify-groups", "--cluster", "Kundennr"]
    target = ["--target-accuracy", 0.9, "--save-policy", "policy.json"]
    run_command("evaluate", "past.csv", *group, *target)
    truth = month(3000, "may")
    run_command("decide", "policy.json", "may.csv", "--keep", "id", "--out", "decisions.csv")
    draw = ["--rate", 0.2, "--seed", 1, "--more-doubtful", "--out", "audits.csv"]
    said = run_command("sample", "decisions.csv", *draw).stderr
    assert "expertload monitor POLICY audits.csv --least-inclusion-probability 0.1" in said
    lines = (tmp_path / "audits.csv").read_text().splitlines()
    assert lines[0] == "key,decided_label,confidence,inclusion_probability,label"
    assert {line.split(",")[3] for line in lines[1:]} == {"0.1", "0.3"}
    filled = [lines[0], *(line + truth[line.split(",")[0]] for line in lines[1:])]
    (tmp_path / "audits.csv").write_text("\n".join(filled) + "\n")
    options = ["--least-inclusion-probability", 0.1, "--state", "state.json", "--json"]
    verdict = json.loads(run_command("monitor", "policy.json", "audits.csv", *options).stdout)
    assert verdict["n_audits"] == len(lines) - 1
    assert verdict["state"] in ("confirmed", "not refuted")


def screened(rng, n, name, folder):
    """A file of screened cases of two branches, and the truth of each."""
    shown = rng.beta(0.3, 0.6, n)
    truth = np.where(rng.random(n) < shown, "bad", "good")
    rows = [f"{name}{i},{'EW'[i % 2]},{p:.6f},{1 - p:.6f}" for i, p in enumerate(shown)]
    labels = truth if name == "past" else [""] * n
    lines = [f"{row},{label}" for row, label in zip(rows, labels, strict=True)]
    text = "\n".join(["id,Filiale,p_bad,p_good,label", *lines])
    (folder / f"{name}.csv").write_text(text + "\n")
    return {f"{name}{i}": label for i, label in enumerate(truth)}


def fill(file, truth):
    audits = pd.read_csv(file, dtype=str)
    audits.assign(label=audits["key"].map(truth)).to_csv(file, index=False)
    return audits


def test_a_month_of_promises_about_classes(run, run_command, tmp_path):
    """Misses need the delegated cases: without them every case of the class looks missed."""
    rng = np.random.default_rng(0)
    screened(rng, 4000, "past", tmp_path)
    promises = ["--promise", "missed:bad=0.1", "--promise", "precision:good=0.9"]
    run_command("evaluate", "past.csv", *promises, "--save-policy", "p.json")
    truth = screened(rng, 3000, "may", tmp_path)
    run_command("decide", "p.json", "may.csv", "--keep", "id", "--out", "d.csv")
    draw = ["--rate", 0.5, "--seed", 1, "--out", "a.csv"]
    run_command("sample", "d.csv", *draw)
    fill(tmp_path / "a.csv", truth)
    error = run("p.json", "a.csv", code=1).stderr
    assert "a.csv must also hold cases left to experts, for missed:bad=0.1" in error
    assert "sample --with-delegated" in error
    said = run_command("sample", "d.csv", *draw, "--with-delegated").stderr
    assert "monitor POLICY a.csv --least-inclusion-probability 0.5" in said
    drawn = fill(tmp_path / "a.csv", truth)
    delegated = drawn["decided_label"].isna()
    assert f"and {delegated.sum()} delegated cases taken" in said
    assert set(drawn["inclusion_probability"][delegated]) == {"1"}
    assert set(drawn["inclusion_probability"][~delegated]) == {"0.5"}
    both = run("p.json", "a.csv", "--least-inclusion-probability", "0.5", "--json").stdout
    missed, precision = json.loads(both)["promises"]
    assert {missed["state"], precision["state"]} <= {"confirmed", "not refuted"}
    assert missed["n_audits"] == (drawn["key"].map(truth) == "bad").sum()
    assert precision["n_audits"] == (drawn["decided_label"] == "good").sum()


def test_a_month_of_promises_about_classes_in_each_branch(run, run_command, tmp_path):
    """A stream for each promise in each branch, from one file."""
    rng = np.random.default_rng(0)
    screened(rng, 6000, "past", tmp_path)
    group = ["--group", "Filiale", "--certify-groups", "--promise", "missed:bad=0.1"]
    run_command("evaluate", "past.csv", *group, "--save-policy", "p.json")
    truth = screened(rng, 2000, "may", tmp_path)
    kept = ["--keep", "id", "--keep", "Filiale"]
    run_command("decide", "p.json", "may.csv", *kept, "--out", "d.csv")
    run_command("sample", "d.csv", "--rate", 1, "--with-delegated", "--out", "a.csv")
    audits = fill(tmp_path / "a.csv", truth)
    said = json.loads(run("p.json", "a.csv", "--json").stdout)["promises"]
    assert [each["promise"] for each in said] == ["E: missed:bad=0.1", "W: missed:bad=0.1"]
    bad = audits["Filiale"][audits["key"].map(truth) == "bad"].value_counts()
    assert [each["n_audits"] for each in said] == [bad["E"], bad["W"]]
    east = ["--promise", "E: missed:bad=0.1", "--state", "watch.json"]
    assert "E: missed:bad=0.1" in run("p.json", "a.csv", *east).stdout
    west = ["--promise", "W: missed:bad=0.1", "--state", "watch.json"]
    assert "audits of another policy" in run("p.json", "a.csv", *west, code=1).stderr
    error = run("p.json", "a.csv", "--promise", "missed:bad=0.1", code=1).stderr
    assert "must be one of E: missed:bad=0.1, W: missed:bad=0.1" in error
    only = run("p.json", "a.csv", "--query", "SELECT * FROM file WHERE Filiale = 'E'", "--json")
    assert [each["n_audits"] for each in json.loads(only.stdout)["promises"]] == [bad["E"], 0]
    audits.drop(columns="Filiale").to_csv(tmp_path / "a.csv", index=False)
    assert "There is no column 'Filiale'" in run("p.json", "a.csv", code=1).stderr


def test_labels_that_are_no_classes_of_the_policy_are_refused(run, tmp_path):
    cases = Cases.from_predictions(["no", "yes"] * 150, [[0.9, 0.1], [0.2, 0.8]] * 150)
    operating_point.certify(cases, target_accuracy=0.95).save(tmp_path / "p.json")
    rows = ["key,decided_label,label", "1,yes,yes", "2,no,yse", "3,yes,yes ", "4,no,"]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    said = run("p.json", "a.csv", code=1).stderr
    assert (
        "'label' of a.csv must hold the policy's classes (no, yes). Got yse, the first in" in said
    )
    (tmp_path / "a.csv").write_text("\n".join(rows).replace("yse", "no") + "\n")
    assert json.loads(run("p.json", "a.csv", "--json").stdout)["n_errors"] == 0
    (tmp_path / "a.csv").write_text("key,decided_label,label\n1,true,true\n2,false,true\n")
    assert json.loads(run("p.json", "a.csv", "--json").stdout)["n_errors"] == 1


def test_two_months_of_customers_with_one_state(run, run_command, policy, tmp_path):
    """What `sample` prints each month works, although May has a customer with more cases."""
    total = 0
    for name, largest in (("april", 5), ("may", 8)):
        file, _ = decisions_of_customers(tmp_path, [1] * 200 + [largest] * 40, name=name)
        draw = ["--rate", 0.5, "--cluster", "customer", "--seed", 1, "--out", "audits.csv"]
        said = run_command("sample", file, *draw).stderr
        least = f"--least-inclusion-probability {0.5 / largest:g}"
        assert f"expertload monitor POLICY audits.csv {least}" in said
        drawn = pd.read_csv(tmp_path / "audits.csv").assign(label="a")
        drawn.to_csv(tmp_path / "audits.csv", index=False)
        total += len(drawn)
        if name == "may":  # the probability of April is too high for May
            error = run(policy, "audits.csv", "--state", "state.json", code=1).stderr
            assert "0.0625 below the smallest, 0.1" in error
            assert "--least-inclusion-probability" in error
        options = [*least.split(), "--state", "state.json", "--json"]
        verdict = json.loads(run(policy, "audits.csv", *options).stdout)
        assert verdict["n_audits"] == total
        again = json.loads(run(policy, "audits.csv", "--state", "state.json", "--json").stdout)
        assert (again["n_new"], again["evidence"]) == (0, verdict["evidence"])


def test_dates_are_rewritten_by_the_query_of_the_hint(run, policy, tmp_path):
    (tmp_path / "a.csv").write_text("correct,Tag der Tat\n1,09.04.2026\n")
    error = run(policy, "a.csv", "--decided-at", "Tag der Tat", code=1).stderr
    query = error.split('--query "')[1].strip().removesuffix('"').replace("\\", "")
    run(policy, "a.csv", "--decided-at", "Tag der Tat", "--query", query)


def test_a_sample_refuses_a_key_that_repeats_and_warns_of_clusters(run_command, tmp_path):
    file, _ = decisions_of_customers(tmp_path, [2] * 50)
    error = run_command("sample", file, "--key", "customer", code=1).stderr
    assert "'customer' of d.csv must identify a case, but 'c0' is the key of 2 cases" in error
    said = run_command("sample", file).stderr
    assert "The column 'customer' of d.csv has 50 distinct values for 100 cases." in said
    assert "Warning" not in run_command("sample", file, "--cluster", "none").stderr
    said = run_command("sample", file, "--cluster", "customer").stderr
    assert "drawn: --rate 0.1 is the share of the clusters, with one case of each." in said


def test_a_sample_is_drawn_with_the_probabilities_it_states(tmp_path):
    rows = ["id,accepted,label,confidence"]
    rows += [f"{i},{'true' if i % 3 else 'false'},a,{i / 3000:.4f}" for i in range(3000)]
    file = tmp_path / "d.csv"
    file.write_text("\n".join(rows) + "\n")
    n_drawn, weight = [], []
    for seed in range(30):
        counts = draw_audits(file, out=tmp_path / "s.csv", rate=0.2, more_doubtful=True, seed=seed)
        drawn = [line.split(",") for line in (tmp_path / "s.csv").read_text().splitlines()[1:]]
        assert all(int(line[0]) % 3 for line in drawn)
        assert counts.n_drawn == len(drawn)
        n_drawn.append(len(drawn))
        weight.append(sum(1 / float(line[3]) for line in drawn))
    assert counts.n_decided == 2000
    assert np.mean(n_drawn) == pytest.approx(400, rel=0.05)
    assert np.mean(weight) == pytest.approx(2000, rel=0.05)  # inclusion weights count all cases
    for wrong in ({"rate": 0}, {"rate": 5}):
        with pytest.raises(ParameterError, match="'rate'"):
            draw_audits(file, out=tmp_path / "s.csv", **wrong)
    file.write_text("accepted,label,confidence\ntrue,a,0.9\n")
    with pytest.raises(FileFormatError, match="a key"):
        draw_audits(file, out=tmp_path / "s.csv", rate=1.0)


def decisions_of_customers(tmp_path, sizes, name=""):
    """Write decisions of customers with these numbers of cases, and return the file."""
    rows = ["id,accepted,label,confidence,customer,branch"]
    owners = [owner for owner, size in enumerate(sizes) for _ in range(size)]
    rows += [f"{name}{i},true,a,0.9,c{owner},b{i % 2}" for i, owner in enumerate(owners)]
    file = tmp_path / "d.csv"
    file.write_text("\n".join(rows) + "\n")
    return file, np.array(owners)


def test_a_sample_has_one_case_of_each_customer(tmp_path):
    file, owners = decisions_of_customers(tmp_path, [1] * 300 + [4] * 100)
    times, out = np.zeros(len(owners)), tmp_path / "s.csv"
    for seed in range(40):
        counts = draw_audits(file, out=out, rate=0.5, cluster="customer", seed=seed)
        drawn = pd.read_csv(out)
        assert drawn["customer"].is_unique
        assert set(drawn["branch"]) == {"b0", "b1"}  # what was kept stays, to select by
        times[drawn["key"]] += 1
    stated = np.where(owners < 300, 0.5, 0.5 / 4)
    assert counts.least_inclusion_probability == 0.125
    by_owner = [times[owners < 300].mean() / 40, times[owners >= 300].mean() / 40]
    assert by_owner == pytest.approx([0.5, 0.125], rel=0.04)
    assert drawn["inclusion_probability"].tolist() == stated[drawn["key"]].tolist()
    file.write_text(file.read_text().replace(",c0,", ",,"))
    with pytest.raises(FileFormatError, match="names no cluster"):
        draw_audits(file, out=out, rate=0.5, cluster="customer")
    with pytest.raises(ParameterError, match="--cluster"):
        draw_audits(file, out=out, rate=0.5, cluster="customer", more_doubtful=True)


@pytest.mark.simulation
def test_audits_of_customers_alarm_falsely_only_if_drawn_case_by_case(tmp_path):
    """Customers of 20 cases stand or fall together: .95 of all cases are right, as promised."""
    file, owners = decisions_of_customers(tmp_path, [1] * 400 + [20] * 40)
    alarms = {"customer": 0, None: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        right = (rng.random(440) < 0.95)[owners].astype(float)
        for cluster in alarms:
            draw_audits(file, out=tmp_path / "s.csv", rate=1.0, cluster=cluster, seed=seed)
            drawn = pd.read_csv(tmp_path / "s.csv")
            monitor = AccuracyMonitor(target_accuracy=0.95, least_inclusion_probability=1 / 20)
            pi = drawn["inclusion_probability"].to_numpy()
            monitor.update(right[drawn["key"]], inclusion_probability=pi)
            alarms[cluster] += monitor.state == "refuted"
    assert alarms["customer"] <= 6
    assert alarms[None] > 12


def test_cases_that_the_policy_leaves_to_experts_are_no_audits(run, run_command, tmp_path):
    """Held-out predictions, not decided yet: each row looks like a decision and its answer."""
    rng = np.random.default_rng(0)
    dog = rng.beta(0.3, 0.3, 2000).round(3)
    label = np.where(rng.random(2000) < dog, "dog", "cat")
    frame = pd.DataFrame({"label": label, "p_cat": (1 - dog).round(3), "p_dog": dog})
    frame = frame.assign(y_pred=np.where(dog > 0.5, "dog", "cat"))
    frame.to_csv(tmp_path / "held.csv", index=False)
    run_command("evaluate", "held.csv", "--target-accuracy", 0.9, "--save-policy", "policy.json")
    said = run("policy.json", "held.csv", code=1).stderr
    assert "that the policy leaves to experts, by their confidence" in " ".join(said.split())
    threshold = operating_point.load_operating_point(tmp_path / "policy.json").threshold
    frame[np.maximum(dog, 1 - dog) >= threshold].to_csv(tmp_path / "sure.csv", index=False)
    assert "Not refuted" in run("policy.json", "sure.csv").stdout
