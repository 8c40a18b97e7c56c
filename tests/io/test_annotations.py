"""Files of Label Studio and Argilla, in their documented formats."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload import exceptions as ex
from expertload.io import Answered, read_annotations, readings_of, write_annotations


def choice(answer, name="sentiment", kind="choices"):
    return {
        "id": "Dx_aB91ISN",
        "from_name": name,
        "to_name": "text",
        "type": kind,
        "origin": "manual",
        "value": {kind: answer if isinstance(answer, list) else [answer]},
    }


def annotation(by, *results, **more):
    """An annotation as in the documentation of the task format."""
    return {
        "id": 1001,
        "result": list(results),
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2021-03-09T22:16:08.728353Z",
        "updated_at": "2021-03-09T22:16:08.728378Z",
        "lead_time": 4.288,
        "result_count": 0,
        "task": 1,
        "completed_by": by,
        **more,
    }


def task(number, *annotations, data=None, predictions=()):
    return {
        "id": number,
        "created_at": "2021-03-09T21:52:49.513742Z",
        "updated_at": "2021-03-09T22:16:08.746926Z",
        "project": 83,
        "data": data or {"text": f"text {number}"},
        "annotations": list(annotations),
        "predictions": list(predictions),
    }


ANN, BO = str(uuid4()), str(uuid4())


def record(name, responses, **more):
    """A record as Argilla's `to_dict` makes it."""
    return {
        "id": name,
        "fields": {"text": f"text {name}"},
        "metadata": {},
        "suggestions": {},
        "responses": responses,
        "vectors": {},
        "_server_id": str(uuid4()),
        **more,
    }


def save(path, items):
    path.write_text(json.dumps(items))
    return path


def test_label_studio(tmp_path):
    guess = {"model_version": "model 1", "score": 0.9, "created_ago": "3 hours"}
    ann = {"id": 2, "email": "ann@example.org", "first_name": "", "last_name": ""}
    items = [
        task(
            1,
            annotation(ann, choice("good")),
            annotation(10, choice("bad")),
            predictions=[{**guess, "result": [choice("good")]}],
        ),
        task(2, annotation(10, choice("bad")), annotation(ann, was_cancelled=True)),
        task(3, annotation(10)),  # submitted without an answer
        task(4, data={"text": "own name", "key": "case-4"}),
    ]
    found = read_annotations(save(tmp_path / "export.json", items))
    assert found == (
        Answered(
            "1",
            {"text": "text 1"},
            (("ann@example.org", "good"), ("10", "bad")),
            "good",
            0.9,
            "model 1",
        ),
        Answered("2", {"text": "text 2"}, (("10", "bad"),)),
        Answered("3", {"text": "text 3"}),
        Answered("case-4", {"text": "own name"}),
    )
    readings = readings_of(found)
    assert readings.cases == ("1", "2")
    assert readings.readers == ("10", "ann@example.org")
    assert [readings.labels[i] for i in readings.answer] == ["good", "bad", "bad"]


def test_argilla(tmp_path):
    guess = {"label": {"value": "good", "score": 0.8, "agent": "gpt"}}
    items = [
        record(
            "a",
            {"label": [{"value": "good", "user_id": ANN}, {"value": "bad", "user_id": BO}]},
            suggestions=guess,
        ),
        record("b", {}),
    ]
    found = read_annotations(save(tmp_path / "records.json", items))
    answers = ((ANN, "good"), (BO, "bad"))
    assert found == (
        Answered("a", {"text": "text a"}, answers, "good", 0.8, "gpt"),
        Answered("b", {"text": "text b"}),
    )


@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
def test_one_of_several_questions(tmp_path, tool):
    one, other = choice("good"), choice(["x", "y"], "topics")
    box = choice("Moonwalker", "tag", "rectanglelabels")
    items = [task(1, annotation(10, one, other, box))]
    if tool == "argilla":
        several = {"value": ["x", "y"], "user_id": ANN}
        asked = {"sentiment": [{"value": "good", "user_id": ANN}], "topics": [several]}
        items = [record("a", asked)]
    path = save(tmp_path / "export.json", items)
    assert read_annotations(path, question="sentiment")[0].answers[0][1] == "good"
    with pytest.raises(ex.FileFormatError, match=r"the questions sentiment, topics.*question=..."):
        read_annotations(path)
    with pytest.raises(ex.FileFormatError, match="question="):
        read_annotations(path, question="colour")
    with pytest.raises(ex.FileFormatError, match="must be one choice. Got x, y"):
        read_annotations(path, question="topics")


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
CASES = st.tuples(
    NAMES,
    st.dictionaries(NAMES.filter(lambda name: name != "key"), NAMES | st.integers(), max_size=3),
    st.dictionaries(NAMES, NAMES, max_size=3).map(lambda given: tuple(given.items())),
)
GUESSES = st.tuples(NAMES, st.none() | st.floats(0, 1), st.none() | NAMES)


@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
@given(cases=st.lists(CASES, max_size=4), guesses=st.lists(st.none() | GUESSES, min_size=4))
def test_nothing_is_lost_there_and_back(tmp_path_factory, tool, cases, guesses):
    whole = tuple(
        Answered(*one, *(guess or ())) for one, guess in zip(cases, guesses, strict=False)
    )
    path = tmp_path_factory.getbasetemp() / f"{tool}.json"
    write_annotations(path, whole, tool=tool)
    assert read_annotations(path) == whole


def test_written_files_have_the_documented_form(tmp_path):
    case = Answered("a", {"text": "Hello"}, (("Ann", "good"),), "bad", 0.7, "m1")
    write_annotations(tmp_path / "tasks.json", [case], tool="label-studio")
    [written] = json.loads((tmp_path / "tasks.json").read_text())
    result = {"from_name": "answer", "to_name": "text", "type": "choices"}
    assert written == {
        "data": {"text": "Hello", "key": "a"},
        "annotations": [
            {
                "completed_by": {"email": "Ann"},
                "was_cancelled": False,
                "result": [{**result, "value": {"choices": ["good"]}}],
            }
        ],
        "predictions": [
            {
                "model_version": "m1",
                "score": 0.7,
                "result": [{**result, "value": {"choices": ["bad"]}}],
            }
        ],
    }
    write_annotations(tmp_path / "records.json", [case], tool="argilla")
    [written] = json.loads((tmp_path / "records.json").read_text())
    [response] = written["responses"]["answer"]
    assert set(written) == set(record("a", {}))
    assert response == {"value": "good", "user_id": "2e11f43d-2136-5e32-83a4-e85ad71337f5"}


@pytest.mark.parametrize(
    "content",
    ["{", '{"a": 1}', "[1]", '[{"id": 1}]', '[{"data": {}, "annotations": [{}]}]'],
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(ex.FileFormatError, match="list of Label Studio's tasks or Argilla's"):
        read_annotations(tmp_path / "x.json")
    with pytest.raises(ex.DataNotFoundError):
        read_annotations(tmp_path / "y.json")
    with pytest.raises(ex.ParameterError, match="'tool'"):
        write_annotations(tmp_path / "y.json", [], tool="paper")
