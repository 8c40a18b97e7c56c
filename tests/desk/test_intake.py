"""Cases arrive: read and doubted, routed, stored once."""

from __future__ import annotations

import base64
import hmac
import io
import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image
from sqlalchemy import select

from expertload import Cases
from expertload.desk.intake.case import SentCase, read_body, read_case, read_line
from expertload.desk.intake.images import MOST_PIXELS
from expertload.desk.intake.receiving import Outcome, receive
from expertload.desk.intake.routing import read_policy
from expertload.desk.intake.sampling import draw
from expertload.desk.store.tables import bodies, cases, decisions, readings
from expertload.exceptions import DeskRefusedError
from expertload.operating_point import certify_classes
from tests.desk.world import policy_text, sent

GOOD = {"key": "a", "confidence": 0.9, "label": "cat"}


# ------------------------------------------------------------------ form


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": None}, "needs a 'key'"),
        ({"key": ""}, "needs a 'key'"),
        ({"key": 7}, "needs a 'key'"),
        ({"key": "x" * 201}, "at most 200"),
        ({"key": "a\x00b"}, "control characters"),
        ({"key": "a\ud800b"}, "control characters"),
        ({"label": None}, "no prediction"),
        ({"label": 1.5}, "text or a whole number"),
        ({"label": True}, "text or a whole number"),
        ({"confidence": "0.9"}, "must be a number"),
        ({"confidence": True}, "must be a number"),
        ({"probabilities": []}, "must be an object"),
        ({"probabilities": {}}, "must be an object"),
        ({"probabilities": {"cat": "0.5"}}, "must be a number"),
        ({"probabilites": {}}, "no field 'probabilites'"),
        ({"due": "tomorrow"}, "must be a time"),
        ({"due": "2026-05-01T12:00:00"}, "must be a time"),
        ({"due": -1}, "must be a time"),
        ({"due": 1e30}, "must be a time"),
        ({"due": float("nan")}, "must be a time"),
        ({"body": "text"}, "'kind' and 'content'"),
        ({"body": {"kind": "pdf", "content": ""}}, "must be one of"),
        ({"body": {"kind": ["text"], "content": ""}}, "must be one of"),
        ({"group": "g" * 300}, "at most 200"),
    ],
)
def test_bad_form_is_refused_in_a_sentence(change, said):
    with pytest.raises(DeskRefusedError, match=said):
        read_case({**GOOD, **change})


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_refused(line):
    with pytest.raises(DeskRefusedError):
        read_line(line)


def test_a_digest_does_not_depend_on_the_order_of_fields():
    one = read_line('{"key": "a", "confidence": 0.5, "label": "x"}')
    other = read_line('{"label": "x", "confidence": 0.5,\n"key": "a"}')
    assert (
        one.digest == other.digest != read_line('{"key":"a","confidence":0.6,"label":"x"}').digest
    )


def outcome_of(read, content):
    try:
        return read(content)
    except DeskRefusedError as error:
        return error.message, error.hint


NUMBERS = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**30, 0, -0.0, 1e-320, None, True, "0.5"]),
)
NAMES = st.one_of(st.text(max_size=5), NUMBERS, st.sampled_from(["\ud800", "\x7f", "x" * 201]))


@given(
    st.fixed_dictionaries(
        {"key": NAMES, "probabilities": st.dictionaries(st.text(max_size=3), NUMBERS, max_size=3)},
        optional={"confidence": NUMBERS, "label": NAMES, "group": NAMES, "due": NUMBERS},
    ),
    st.sampled_from([{}, {"indent": 1}, {"ensure_ascii": False}, {"sort_keys": True}]),
)
@example({"key": "\ud800", "probabilities": {}}, {"ensure_ascii": False})
def test_the_fast_parser_reads_what_the_patient_one_reads(content, spelling):
    """Whichever parser a spelling takes: the same case, the same digest, the same refusal."""
    line = json.dumps(content, **spelling).encode("utf-8", "surrogatepass")
    fast, patient = outcome_of(read_line, line), outcome_of(read_case, json.loads(line))
    if isinstance(fast, SentCase) and _beyond_a_double(content):
        fast, patient = (each._replace(digest="") for each in (fast, patient))
    assert repr(fast) == repr(patient)  # NaN is not equal to itself


def _beyond_a_double(content) -> bool:
    """Whether a number is a whole one that the fast parser takes for the nearest double."""
    values = [content.get("confidence"), content.get("due"), *content["probabilities"].values()]
    return any(isinstance(v, int) and not -(2**63) <= v < 2**64 for v in values)


def test_numbers_and_nothing_have_digests_of_their_own():
    lines = [b"NaN", b"null", b"0", b"0.0", b"18446744073709551616"]
    case = b'{"key": "a", "label": "cat", "confidence": 1, "due": 1, "probabilities": {"cat": %b}}'
    assert len({read_line(case % number).digest for number in lines}) == len(lines)


def test_a_long_whole_number_in_a_body_is_kept():
    line = b'{"key": "a", "label": 1, "confidence": 1, "body": {"kind": "json", "content": %d}}'
    assert read_line(line % 10**30).body.content == str(10**30).encode()


def test_due_is_read_in_both_spellings():
    by_text = read_case({**GOOD, "due": "2026-05-01T12:00:00+02:00"})
    assert by_text.due == read_case({**GOOD, "due": 1_777_629_600}).due


# ------------------------------------------------------------------ bodies


def encoded(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return base64.b64encode(out.getvalue()).decode()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_pixels_survive_and_metadata_does_not(mode):
    rng = np.random.default_rng(0)
    base = Image.fromarray(rng.integers(0, 255, (5, 7, 3), dtype=np.uint8))
    image = Image.new("I;16", (7, 5), 4000) if mode == "I;16" else base.convert(mode)
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    info.add_text("Comment", "patient: Somebody")
    body = read_body({"kind": "image", "content": encoded(image, pnginfo=info)})
    assert b"Somebody" not in body.content
    assert body.media_type == "image/png"
    again = Image.open(io.BytesIO(body.content))
    assert np.array_equal(np.asarray(again.convert("RGBA")), np.asarray(image.convert("RGBA")))


def test_a_photograph_stays_one_without_what_was_attached():
    image = Image.new("RGB", (20, 10), (200, 100, 50))
    exif = image.getexif()
    exif[0x010E] = "secret place"
    data = base64.b64decode(encoded(image, "JPEG", exif=exif)) + b"<script>"
    content = base64.b64encode(data).decode()
    body = read_body({"kind": "image", "content": content})
    assert body.media_type == "image/jpeg"
    assert b"secret place" not in body.content
    assert b"<script>" not in body.content


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize(("held", "size"), [(1, (20, 10)), (3, (20, 10)), (6, (10, 20))])
def test_a_photograph_is_shown_as_it_was_held(kind, held, size):
    """A camera that was turned notes it beside the pixels, and the note is not kept."""
    image = Image.new("L", (20, 10), 0)
    image.paste(255, (0, 0, 10, 10))
    exif = image.getexif()
    exif[0x0112] = held
    body = read_body({"kind": "image", "content": encoded(image, kind, exif=exif)})
    shown = Image.open(io.BytesIO(body.content))
    assert (shown.format, shown.size) == (kind, size)
    assert 0x0112 not in shown.getexif()
    corner = shown.getpixel((1, 1))
    assert (corner > 128) == (held != 3)


def png_header(width, height):
    """A tiny file that says it is large."""
    import struct
    import zlib

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    "data",
    [
        png_header(100_000, 100_000),
        png_header(MOST_PIXELS // 100 + 1, 100),
        png_header(64, 64),  # fewer pixels than promised
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<html><script>alert(1)</script></html>",
        b"%PDF-1.7",
        b"",
        b"II*\x00" + b"\0" * 40,
        b"GIF89a" + b"\xff" * 20,
    ],
)
def test_hostile_images_are_refused(data):
    with pytest.raises(DeskRefusedError):
        read_body({"kind": "image", "content": base64.b64encode(data).decode()})


@pytest.mark.parametrize("content", ["not base64!", "====", 5, None, ["a"]])
def test_an_image_is_base64(content):
    with pytest.raises(DeskRefusedError, match="base64|could not be read"):
        read_body({"kind": "image", "content": content})


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "text", "content": "x" * 1_000_001},
        {"kind": "text", "content": "\ud800"},
        {"kind": "text", "content": 5},
        {"kind": "table", "content": [["a"], [1, 2]]},
        {"kind": "table", "content": [["a"], [{"b": 1}]]},
        {"kind": "table", "content": []},
        {"kind": "table", "content": [["a", "b"]] * 60_000},
        {"kind": "json", "content": float("nan")},
        {"kind": "json", "content": nested(60)},
        {"kind": "json", "content": "\ud800"},
        {"kind": "json", "content": ["x" * 1_000_001]},
    ],
)
def test_other_bodies_have_limits(body):
    with pytest.raises(DeskRefusedError):
        read_body(body)


def test_a_body_has_a_row_of_its_own(world):
    world.send({**GOOD, "body": {"kind": "table", "content": [["age", "sex"], [7, None]]}})
    (row,) = world.rows(select(bodies))
    assert json.loads(row.content) == [["age", "sex"], [7, None]]
    held = world.claim()
    assert held.body.kind == "table"
    assert held.body.content == row.content


# ------------------------------------------------------------------ sampling


@given(st.binary(min_size=1, max_size=200), st.text(max_size=20))
def test_the_draw_is_an_hmac(secret, key):
    name = f"quality\x1fmain\x1f{key}".encode("utf-8", "ignore")
    key = key.encode("utf-8", "ignore").decode()
    digest = hmac.digest(secret, name, "sha256")
    wanted = (int.from_bytes(digest[:8], "big") >> 11) / 2**53
    assert draw(secret, "quality", "main", key) == wanted


def test_the_draw_is_uniform_and_repeats():
    draws = np.array([draw(b"s", "quality", "main", f"case-{i}") for i in range(20_000)])
    assert draws.min() >= 0
    assert draws.max() < 1
    assert abs(np.mean(draws < 0.05) - 0.05) < 0.005
    assert draw(b"s", "quality", "main", "case-0") == draws[0]
    assert draw(b"t", "quality", "main", "case-0") != draws[0]
    assert draw(b"s", "second", "main", "case-0") != draws[0]


# ------------------------------------------------------------------ routing


def causes(document, *contents):
    return [r.cause for r in read_policy(document).route([read_case(c) for c in contents])]


def test_routing_follows_the_policy():
    policy = read_policy(policy_text())
    threshold = policy.point.threshold
    at, below = float(threshold), float(np.nextafter(threshold, 0))
    routes = policy.route([read_case(sent("a", at)), read_case(sent("b", below))])
    assert [route.accepted for route in routes] == [True, False]
    assert [route.cause for route in routes] == ["above_threshold", "below_threshold"]
    assert routes[0].predicted == "cat"


def test_a_confidence_beside_probabilities_does_not_overrule_them():
    """A policy of the largest probability decides by that, whatever a sender says beside it."""
    policy = read_policy(policy_text())
    unsure, sure = policy.route(
        [
            read_case(sent("unsure", 0.6, confidence=0.999)),
            read_case(sent("sure", 0.99, confidence=0.01)),
        ]
    )
    assert (unsure.accepted, unsure.confidence) == (False, 0.6)
    assert (sure.accepted, sure.confidence) == (True, 0.99)


def test_what_is_not_as_it_was_certified_goes_to_an_expert():
    nan = float("nan")
    assert causes(
        policy_text(),
        {"key": "a", "probabilities": {"cat": 0.99, "cow": 0.01}},
        {"key": "b", "probabilities": {"cat": 0.99, "dog": 0.005, "cow": 0.005}},
        {"key": "c", "probabilities": {"cat": nan, "dog": 0.01}},
        {"key": "d", "probabilities": {"cat": 1.99, "dog": -0.99}},
        {"key": "e", "probabilities": {"cat": 0.99, "dog": 0.99}},
        {"key": "f", "confidence": 0.99, "label": "cat"},
        {"key": "g", "probabilities": {"cat": 0.99}},
        {"key": "h", "probabilities": {"cat": 0.99, "dog": None}},
        {**sent("i"), "label": "dog"},
        {"key": "j", "probabilities": {"cat": 10**400, "dog": 0.0}},
    ) == [
        "unknown_class",
        "unknown_class",
        "not_a_number",
        "not_a_probability",
        "not_a_probability",
        "no_probabilities",
        "unknown_class",
        "not_a_number",
        "another_label",
        "not_a_probability",
    ]


def test_another_model_goes_to_an_expert():
    document = policy_text(model_name="forest")
    assert causes(document, sent("a"), sent("b", model="forest"), sent("c", model="tree")) == [
        "model_not_named",
        "above_threshold",
        "unknown_model",
    ]


def test_another_group_goes_to_an_expert():
    document = policy_text(groups=True)
    assert causes(document, sent("a"), sent("b", group="north"), sent("c", group="west")) == [
        "unknown_group",
        "above_threshold",
        "unknown_group",
    ]


@pytest.mark.parametrize(
    "document", ["", "{}", "[]", "nonsense", '{"kind": "x"}', "\x00", "\ud800"]
)
def test_what_is_no_policy_is_refused(document):
    with pytest.raises(DeskRefusedError, match="not a policy"):
        read_policy(document)


def test_promises_about_classes_are_not_for_a_desk():
    rng = np.random.default_rng(0)
    sick = rng.beta(0.3, 0.6, 1000)
    y_true = np.where(rng.random(1000) < sick, "sick", "well")
    screened = Cases.from_predictions(y_true, sick, labels=["well", "sick"])
    policy = certify_classes(screened, promises="missed:sick=0.1")
    with pytest.raises(DeskRefusedError, match="promises about classes"):
        read_policy(policy.to_json())


# ------------------------------------------------------------------ receiving


def test_without_a_policy_everything_is_delegated(world):
    assert world.send_one("a") == Outcome("a", "delegated", None, None, "no_policy")
    assert world.case("a").cause == "no_policy"
    assert world.case("a").rate == 1.0


def test_the_answer_carries_the_decision(world):
    number = world.activate()
    assert world.send_one("a") == Outcome("a", "decided", "cat", number, "above_threshold")
    assert world.send_one("b", 0.01) == Outcome("b", "decided", "dog", number, "above_threshold")
    assert world.send_one("c", 0.6) == Outcome("c", "delegated", None, None, "below_threshold")


def test_the_same_case_again_gets_the_first_answer(world):
    world.activate()
    first = world.send(sent("a"), sent("b", 0.6))
    assert world.send(sent("b", 0.6), sent("a"), sent("a")) == [first[1], first[0], first[0]]
    assert world.counts()["received"] == 2


def test_a_key_with_another_content_is_refused_and_the_others_stand(world):
    world.send(sent("a"))
    refused, stored, twin = world.send(sent("a", 0.6), sent("b"), sent("b", 0.7))
    assert refused.code == "conflict"
    assert stored.status == "delegated"
    assert twin.code == "conflict"
    assert [row.key for row in world.rows(select(cases.c.key).order_by(cases.c.id))] == ["a", "b"]


def test_the_quality_sample_is_read_although_decided(world):
    world.activate()
    world.send(*(sent(f"case-{i}") for i in range(200)))
    rows = world.rows(select(cases))
    sampled = {row.id for row in rows if draw(b"test", "quality", "main", row.key) < 0.2}
    assert 20 < len(sampled) < 60
    assert {row.case_id for row in world.rows(select(readings.c.case_id))} == sampled
    assert {row.id for row in rows if row.audit == "open"} == sampled
    assert len(world.rows(select(decisions))) == 200


def test_in_strict_mode_nothing_is_decided_before_the_promise_is_confirmed(world):
    world = world.with_rules(strict=True)
    world.activate()
    assert world.send_one("a").status == "delegated"
    assert world.case("a").cause == "not_confirmed_yet"
    assert world.case("a").audit == "open"


@pytest.mark.slow
def test_the_largest_batch(world):
    world.activate()
    batch = [read_case(sent(f"case-{i}", 0.5 + i / 10_000)) for i in range(5_000)]
    outcomes = world.desk.write(receive, batch)
    assert [outcome.key for outcome in outcomes] == [case.key for case in batch]
    assert world.counts()["received"] == 5_000
