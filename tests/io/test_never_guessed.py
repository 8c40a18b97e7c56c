"""What used to be decided wrongly in silence: right now, or refused in a sentence."""

from __future__ import annotations

import io

import numpy as np
import pytest

import expertload as el
from expertload import Cases, metrics
from expertload import exceptions as ex
from expertload import operating_point as op
from expertload.io import (
    ColumnNames,
    Identity,
    decide_file,
    read_cases,
    read_predictions,
    tally_frame,
    tally_groups,
)
from expertload.monitoring import LoadMonitor

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

P3 = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])


def write(path, text):
    path.write_text(text)
    return path


# ------------------------------------------------------------------ policies of other classes


@pytest.fixture
def cat_or_dog(tmp_path):
    """A policy of two classes that knows the columns of its file."""
    path = write(tmp_path / "made.csv", "label,p_cat,p_dog\ncat,0.9,0.1\ndog,0.2,0.8\n")
    return read_predictions(path).evaluate(target_accuracy=0.5).operating_point


def test_a_policy_refuses_a_file_of_other_classes(tmp_path, cat_or_dog):
    path = write(tmp_path / "new.csv", "p_cat,p_eel,p_bird\n0.02,0.95,0.03\n")
    with pytest.raises(ex.FileFormatError, match="lacks p_dog"):
        decide_file(cat_or_dog, path, out=io.StringIO())
    write(path, "p_cat\n0.02\n")
    assert decide_file(cat_or_dog, path, out=io.StringIO()).n_accepted == 1


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    "names",
    [("cat", "eel"), ("eel", "bird"), ("p_eel", "p_bird"), ("0", "1"), ("cat", "dog", "eel")],
)
def test_a_policy_refuses_a_frame_of_other_classes(cat_or_dog, kind, names):
    frame = kind({name: [1 / len(names)] for name in names})
    with pytest.raises(ex.LabelError, match="has the classes cat, dog, but the columns"):
        cat_or_dog.decide(frame)
    with pytest.raises(ex.LabelError, match="'p_eel' .* it is not clear which class"):
        cat_or_dog.decide(kind({"p_eel": [0.9]}))
    numbered = op.choose(Cases.from_predictions([0, 1], [0.1, 0.9]), target_accuracy=1)
    if names != ("0", "1"):
        with pytest.raises(ex.LabelError, match="has the classes 0, 1, but the columns"):
            numbered.decide(frame)


def test_groups_of_a_policy_refuse_them_too():
    policy = op.certify_groups(
        Cases.from_predictions(["cat", "dog"] * 50, [0.1, 0.9] * 50, groups=[0] * 100),
        target_accuracy=0.9,
    )
    with pytest.raises(ex.LabelError, match="has the classes cat, dog"):
        policy.decide(pd.DataFrame({"eel": [0.9], "bird": [0.1]}), groups=[0])


# ------------------------------------------------------------------ masks, precision, large numbers


def test_masked_values_are_refused_wherever_they_stand():
    mask = [False, True, False]
    y, proba = np.array([0, 1, 2]), P3
    hidden_y, hidden = np.ma.array(y, mask=mask), np.ma.array(proba, mask=np.eye(3) > 0)
    ranks = np.ma.array([0.1, 0.2, 0.3], mask=mask)
    said = r"must have no masked values. Got [13] masked value\(s\), the first at row [01]"
    for call in (
        lambda: el.aucoc_score(hidden_y, proba),
        lambda: el.aucoc_score(y, hidden),
        lambda: el.aucoc_score(y, proba, confidence=ranks),
        lambda: el.aucoc_score(y, proba, sample_weight=ranks),
        lambda: el.aucoc_score(Cases.from_correctness([0, 1, 1], ranks)),
        lambda: metrics.brier_loss(y, hidden),
        lambda: op.choose(Cases.from_predictions(y, proba), target_accuracy=0.5).decide(hidden),
    ):
        with pytest.raises(ex.NonFiniteError, match=said):
            call()
    assert el.aucoc_score(np.ma.array(y), np.ma.array(proba)) == el.aucoc_score(y, proba)


def test_a_threshold_is_compared_in_double_precision_everywhere():
    confidence = np.float32([0.6, 0.7, 0.8])
    threshold = float(np.float32(0.7)) + 1e-12  # a single would round it down
    point = op.at_threshold(Cases.from_correctness([1, 1, 1], confidence), threshold=threshold)
    assert point.n_accepted == 1
    assert point.accepts(confidence).tolist() == [False, False, True]
    proba = np.column_stack([1 - confidence, confidence])
    chosen = op.at_threshold(Cases.from_predictions([0, 1, 1], proba), threshold=threshold)
    assert chosen.decide(proba).accepted.sum() == chosen.n_accepted == 1
    certified = op.certify_groups(
        Cases.from_correctness([1] * 300, np.full(300, threshold), groups=[0] * 300),
        target_accuracy=0.9,
    )
    assert certified.accepts(confidence, groups=[0] * 3).tolist() == [False, False, True]
    watched = LoadMonitor(threshold=threshold, expected_load=0.5, n_cases=100).update(confidence)
    assert watched.n_delegated == 2
    singles = np.repeat(confidence, 100)
    clustered = op.certify(
        Cases.from_correctness(np.ones(300), singles, clusters=np.arange(300)),
        target_accuracy=0.5,
        thresholds=[threshold],
    )
    assert clustered.n_accepted == clustered.accepts(singles).sum() == 100


def test_labels_beyond_the_doubles_are_told_apart():
    big = 2**53
    frame = pl.DataFrame({"label": [big, big + 1], f"p_{big}": [0.9, 0.9], f"p_{big + 1}": 0.1})
    for backend in (frame, frame.lazy(), frame.to_pandas(), frame.to_arrow()):
        assert tally_frame(backend, probabilities="p_*").accuracy == 0.5
    y = frame["label"].to_numpy()
    assert el.accuracy_at_load(y, frame.drop("label"), expert_load=0) == 0.5
    unsigned = np.array([big, big + 1], dtype=np.uint64)
    proba = frame.drop("label").to_numpy()
    assert el.accuracy_at_load(y, proba, expert_load=0, labels=unsigned) == 0.5
    with pytest.raises(ex.LabelError, match="floats skip whole numbers"):
        el.aucoc_score(y.astype(float) * 4, proba, labels=[0, 1])


# ------------------------------------------------------------------ numbers and places


@pytest.mark.parametrize("labels", [[1, 2, 3, 4], [1, 2], [4], [1, 2, 3, 4, 5]])
def test_numbers_without_a_zero_are_no_places(labels):
    proba = np.full((len(labels), 5), 0.1) + 0.5 * np.eye(5)[np.array(labels) - 1]
    for y_proba in (proba, pd.DataFrame(proba), pl.DataFrame(proba)):
        with pytest.raises(ex.LabelError, match="and 0 must occur.*labels="):
            el.aucoc_score(labels, y_proba)
        assert el.aucoc_score(labels, y_proba, labels=[1, 2, 3, 4, 5]) == 1
    assert el.aucoc_score([True] * 3, [0.9] * 3) == 1  # truth values are known by half


@pytest.mark.parametrize("name", ["y_proba", "logits"])
def test_the_columns_of_a_matrix_are_places_too(tmp_path, name):
    labels = np.array([1, 2, 3, 4])
    proba = np.full((4, 5), 0.1) + 0.5 * np.eye(5)[labels - 1]
    proba = np.log(proba) if name == "logits" else proba
    np.savez(tmp_path / "x.npz", y_true=labels, **{name: proba})
    with pytest.raises(ex.LabelError, match="and 0 must occur.*--classes"):
        read_predictions(tmp_path / "x.npz")
    found = read_predictions(tmp_path / "x.npz", names=ColumnNames(classes="1,2,3,4,5"))
    assert found.evaluate().accuracy.estimate == 1
    np.savez(tmp_path / "x.npz", y_true=labels - 1.0, **{name: proba})
    assert read_predictions(tmp_path / "x.npz").evaluate().accuracy.estimate == 1


def test_folds_that_miss_a_class():
    sklearn = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    grades = np.arange(1, 6).repeat(40)
    x = grades[:, None] + rng.normal(0, 0.3, (200, 1))
    model = sklearn.LogisticRegression(C=100).fit(x, grades)
    some = grades < 5  # a fold to test on, without the last grade
    proba = model.predict_proba(x[some])
    right = model.predict(x[some]) == grades[some]
    wanted = el.aucoc_score(Cases.from_correctness(right, proba.max(axis=1)))
    assert el.aucoc_score(grades[some], proba, labels=model.classes_) == pytest.approx(wanted)
    assert wanted > 0.7
    less = sklearn.LogisticRegression().fit(x[some], grades[some])  # a fold to fit on
    with pytest.raises(ex.LabelError, match="names no column: 5"):
        el.aucoc_score(grades, less.predict_proba(x), labels=less.classes_)


def test_a_classifier_of_one_class():
    y, proba = np.zeros(4, dtype=int), np.ones((4, 1))
    with pytest.raises(
        ex.ProbabilityError, match="single column of ones belongs to the only class"
    ):
        el.aucoc_score(y, proba)
    for name in (0, 7, "only"):
        labels = np.full(4, name)
        assert el.aucoc_score(labels, proba, labels=[name]) == 1
        assert metrics.brier_loss(labels, proba, labels=[name]) == 0
        assert metrics.log_loss(labels, proba, labels=[name]) == 0
    with pytest.raises(ex.LabelError, match="names no column: 1"):
        el.aucoc_score([0, 1, 0, 0], proba, labels=[0])
    assert el.aucoc_score([0, 1, 1, 1], np.ones(4)) > 0  # one dimension is the second class's
    assert op.choose(Cases.from_predictions([0, 1], [0.1, 0.9]), target_accuracy=1).decide(
        [[1.0]]
    ).labels.tolist() == [1]


@pytest.mark.parametrize(
    ("names", "says"),
    [(("ill", "well"), "names no column: 0"), (("b", "a"), "names no column: 0")],
)
def test_zero_and_one_beside_names_are_refused(tmp_path, names, says):
    path = write(tmp_path / "x.csv", f"label,p_{names[0]},p_{names[1]}\n0,0.9,0.1\n1,0.2,0.8\n")
    with pytest.raises(ex.LabelError, match=f"{says}.*--classes"):
        read_predictions(path)
    frame = pd.read_csv(path)
    with pytest.raises(ex.LabelError, match=f"{says}.*labels="):
        el.aucoc_score(frame["label"], frame.drop(columns="label"))
    with pytest.raises(ex.LabelError, match=f"{says}.*labels="):
        tally_frame(frame, probabilities="p_*")
    found = read_predictions(path, names=ColumnNames(classes="0,1"))
    assert found.evaluate().accuracy.estimate == 1


@pytest.mark.parametrize("names", [("pos", "neg"), ("positive", "negative"), ("Neg", "Pos")])
def test_positive_is_one(tmp_path, names):
    first = names[0].lower().startswith("pos")
    rows = "1,0.9,0.1\n0,0.2,0.8\n" if first else "0,0.9,0.1\n1,0.2,0.8\n"
    path = write(tmp_path / "x.csv", f"label,p_{names[0]},p_{names[1]}\n{rows}")
    assert read_predictions(path).evaluate().accuracy.estimate == 1
    frame = pd.read_csv(path)
    assert el.aucoc_score(frame["label"], frame.drop(columns="label")) == 1
    assert tally_frame(frame, probabilities="p_*").accuracy == 1


# ------------------------------------------------------------------ a sentence, never a traceback


def test_numbers_of_many_digits():
    huge = 10**400
    for call in (
        lambda: el.aucoc_score([huge, 0], [0.1, 0.9]),
        lambda: el.aucoc_score([0, 1], [0.1, 0.9], labels=[0, huge]),
        lambda: el.aucoc_score(Cases.from_correctness([0, 1], [huge, 1])),
        lambda: el.load_at_accuracy([0, 1], [0.1, 0.9], target_accuracy=huge),
        lambda: op.certify_groups(
            Cases.from_correctness([0, 1], [0.1, 0.2], groups=[huge, 1]), target_accuracy=0.9
        ),
    ):
        with pytest.raises(ex.ExpertLoadError, match="2\\*\\*63|no float can hold"):
            call()


def test_numbers_of_many_digits_in_a_file(tmp_path):
    huge, other = "9" * 400, "9" * 399 + "8"
    path = write(tmp_path / "x.csv", f"label,p_{huge},p_{other}\n{huge},0.9,0.1\n{other},0.2,0.8\n")
    assert read_predictions(path).evaluate().accuracy.estimate == 1
    write(path, f"label,p_a,p_b\na,{'9' * 400},0\nb,0,1\n")
    with pytest.raises(ex.ExpertLoadError, match="'p_a' of x.csv"):
        read_predictions(path)
    digits = "9" * 5000  # which Python refuses to make a number
    write(path, f"label,p_{digits},p_b\n{digits},0.9,0.1\nb,0.2,0.8\n")
    assert read_predictions(path).evaluate().accuracy.estimate == 1


@pytest.mark.parametrize("kind", ["Int64", "string", "boolean", "category"])
def test_groups_that_are_missing(kind):
    groups = pd.Series([1, 0, None] if kind != "string" else ["1", "0", None], dtype=kind)
    frame = pd.DataFrame({"confidence": [0.1, 0.2, 0.3], "correct": 1, "by": groups})
    found = tally_groups(frame, by="by")
    assert list(found)[-1] is None
    assert [table.n_cases for table in found.values()] == [1, 1, 1]


def test_moments_with_a_time_zone():
    moments = pd.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("Europe/Zurich")
    with pytest.raises(ex.LabelError, match="Timestamp"):
        el.aucoc_score(moments, [0.1, 0.9])
    frame = pd.DataFrame({"confidence": [0.1, 0.2], "correct": 1, "label": moments, "p": 0.5})
    for backend in (frame, pl.from_pandas(frame)):
        with pytest.raises(ex.DataTypeError, match="class labels: strings or whole numbers"):
            tally_frame(backend, probabilities="p")
        assert len(tally_groups(backend, by="label")) == 2


# ------------------------------------------------------------------ words for true and false


@pytest.mark.parametrize(
    ("labels", "columns"),
    [("NF", "01"), ("YT", "01"), ("NT", "01"), ("01", "nt"), ("01", "tn")],
)
def test_words_of_two_pairs_are_no_opposites(tmp_path, labels, columns):
    """N and F are normal and fraud as likely as twice the negative class."""
    path = write(
        tmp_path / "x.csv",
        f"label,p_{columns[0]},p_{columns[1]}\n{labels[0]},0.9,0.1\n{labels[1]},0.2,0.8\n",
    )
    with pytest.raises(ex.LabelError, match="names no column"):
        read_predictions(path)
    frame = pd.read_csv(path)
    with pytest.raises(ex.LabelError, match="names no column"):
        el.aucoc_score(frame["label"], frame.drop(columns="label"))


# ------------------------------------------------------------------ classes that no sum reveals


def made(tmp_path, header, **names):
    rows = (
        "cat,2,1\ndog,-1,2\n"
        if "z" in header or "logit" in header
        else "cat,0.9,0.1\ndog,0.2,0.8\n"
    )
    if header.count(",") == 1:
        rows = "\n".join(row.rpartition(",")[0] for row in rows.splitlines())
    path = write(tmp_path / "made.csv", f"{header}\n{rows}\n")
    found = read_predictions(path, names=ColumnNames(**names)).evaluate(target_accuracy=0.5)
    return found.operating_point


@pytest.mark.parametrize(
    ("header", "names", "new", "option"),
    [
        ("label,p_cat", {}, "p_cat,p_dog,p_eel\n0.4,0.3,0.3", {"probabilities": "p_cat"}),
        ("label,s_cat", {"probabilities": "s_*"}, "s_cat,s_eel\n0.4,0.3",
         {"probabilities": "s_cat"}),
        ("label,logit_cat", {}, "logit_cat,logit_eel\n1,0", {"logits": "logit_cat"}),
        ("label,logit_cat,logit_dog", {}, "logit_cat,logit_dog,logit_eel\n1,0,9",
         {"logits": "logit_cat,logit_dog"}),
        ("label,z_cat,z_dog", {"logits": "z_*"}, "z_cat,z_dog,z_eel\n1,0,9",
         {"logits": "z_cat,z_dog"}),
        ("label,p_cat,p_dog", {"normalize": True}, "p_cat,p_dog,p_eel\n0.7,0.295,0.005",
         {"probabilities": "p_cat,p_dog"}),
    ],
)  # fmt: skip
def test_a_class_that_the_policy_does_not_know_is_noticed(tmp_path, header, names, new, option):
    policy = made(tmp_path, header, **names)
    path = write(tmp_path / "new.csv", f"{new}\n")
    with pytest.raises(ex.FileFormatError, match=r"also has .*_eel: a class that the policy"):
        decide_file(policy, path, out=io.StringIO())
    assert decide_file(policy, path, out=io.StringIO(), names=ColumnNames(**option)).n_cases == 1


def test_both_columns_are_read_where_one_was_enough(tmp_path):
    policy = made(tmp_path, "label,p_cat")
    path = write(tmp_path / "new.csv", "p_cat,p_dog\n0.4,0.6\n")
    assert decide_file(policy, path, out=io.StringIO()).n_cases == 1
    write(path, "p_cat,p_dog\n0.4,0.3\n")
    with pytest.raises(ex.FileFormatError, match="sum to one"):
        decide_file(policy, path, out=io.StringIO())


def test_one_of_two_logits_is_no_log_odds(tmp_path):
    policy = made(tmp_path, "label,logit_cat,logit_dog")
    path = write(tmp_path / "new.csv", "logit_cat\n2\n")
    for names in (ColumnNames(), ColumnNames(logits="logit_*")):
        with pytest.raises(ex.FileFormatError, match="lacks logit_dog. Hint: .* logits .--logits"):
            decide_file(policy, path, out=io.StringIO(), names=names)
    write(path, "odds_cat\n2\n")
    named = ColumnNames(logits="odds_*")  # another column may be the log-odds
    assert decide_file(policy, path, out=io.StringIO(), names=named).n_accepted == 1


# ------------------------------------------------------------------ another scale


def test_a_policy_of_fractions_refuses_percentages(tmp_path):
    confidence = np.linspace(0.5, 1, 200)
    policy = op.certify(Cases.from_correctness([1] * 200, confidence), target_accuracy=0.9)
    path = write(tmp_path / "new.csv", "confidence\n99\n51\n80\n")
    says = r"'confidence' of new.csv must be on the scale .* from 0.5 to 1. Got [68]"
    for invalid in ("refuse", "delegate"):
        with pytest.raises(ex.FileFormatError, match=says):
            decide_file(policy, path, out=io.StringIO(), invalid=invalid)
    write(path, "confidence\n0.99\n1.2\n0.3\n")
    assert decide_file(policy, path, out=io.StringIO()).n_cases == 3


def test_a_few_extreme_cases_at_the_end_are_no_other_scale(tmp_path, monkeypatch):
    """A sorted file of a score without limit, whose last batch has only a few cases."""
    monkeypatch.setattr("expertload.io.source.BATCH", 1000)
    rng = np.random.default_rng(0)
    path = tmp_path / "x.npz"
    np.savez(path, correct=np.ones(100), confidence=rng.lognormal(size=100))
    policy = read_predictions(path).evaluate(target_accuracy=0.5).operating_point
    np.savez(path, confidence=np.sort(rng.lognormal(sigma=1.5, size=1003)))
    assert decide_file(policy, path, out=io.StringIO()).n_cases == 1003


def test_no_column_is_kept_under_the_name_of_a_decision_s(tmp_path, cat_or_dog):
    path = write(tmp_path / "new.csv", "Row,p_cat,p_dog\n7,0.9,0.1\n")
    with pytest.raises(ex.FileFormatError, match="'Row' cannot be kept"):
        decide_file(cat_or_dog, path, out=io.StringIO(), keep=("Row",))


# ------------------------------------------------------------------ orders that contradict


@pytest.mark.parametrize("order", [["low", "mid", "high"], ["low", "mid", "high", "none"]])
def test_categories_in_an_order_of_their_own(order):
    """Columns without names may be in that order, or in the sorted one of scikit-learn."""
    y, proba = ["low", "mid", "high"], np.eye(3) * 0.7 + 0.1
    for labels in (
        pd.Categorical(y, categories=order, ordered=True),
        pd.Series(pd.Categorical(y, categories=order, ordered=True)),
        pl.Series(y, dtype=pl.Enum(order)),
    ):
        with pytest.raises(ex.LabelError, match="low, mid, high.*sorted.*labels="):
            el.aucoc_score(labels, proba)
        assert el.aucoc_score(labels, proba, labels=y) == 1
        assert el.aucoc_score(labels, pd.DataFrame(proba, columns=y)) == 1
    unordered = pd.Categorical(y, categories=order)  # in the order of appearance, for example
    for labels in (y, unordered, pd.Categorical(y, ordered=True), pl.Series(y)):
        assert el.aucoc_score(labels, proba[:, [2, 0, 1]]) == 1
    for kind in (pl.Categorical, pl.Enum(sorted(y))):
        assert el.aucoc_score(pl.Series(y, dtype=kind), proba[:, [2, 0, 1]]) == 1
    numbers = pd.Categorical([2, 1, 0], categories=[2, 1, 0], ordered=True)
    assert el.aucoc_score(numbers, proba[::-1]) == 1


def test_cases_that_seem_to_form_clusters_are_warned_of(tmp_path):
    file = tmp_path / "predictions.csv"
    rows = "".join(f"p{i % 30},{i % 2},0.{5 + i % 4}\n" for i in range(60))
    file.write_text(f"patient_id,correct,confidence\n{rows}")
    with pytest.warns(UserWarning, match=r"'patient_id'.*Identity\(cluster='patient_id'\)"):
        assert read_cases(file).clusters is None
    for name, in_clusters in (("patient_id", True), ("none", False)):  # then it was said
        read = read_cases(file, identity=Identity(cluster=name))
        assert (read.clusters is not None) == in_clusters
