"""A desk to try out: real images, small networks, a certified policy, and simulated colleagues.

`digits.npz` has 1,797 handwritten digits of 43 people (Alpaydin and Kaynak, "Optical recognition of
handwritten digits", UCI, 1998, CC BY 4.0), so nothing is downloaded. Some are spoiled to need an
expert. Each image is used for only one purpose: to train, to certify, or to be sent to the desk.

First, `play` plays a day in seconds, with the desk's own functions and a clock that starts a day
ago. The first network has learnt from few images, so experts read much. What they answer is
exported for training; a second network learns from it and answers in shadow. When the evidence is
there, the manager lets it decide some of the cases, then all. After that, a `Cast` plays live.
"""

from __future__ import annotations

import base64
import csv
import io
import random
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import softmax

from expertload._check import require_extra
from expertload._typing import FloatArray, IntArray
from expertload.desk.desk import Desk
from expertload.desk.intake.case import read_case
from expertload.desk.intake.receiving import Outcome, receive
from expertload.desk.people.accounts import add_user, find_user, roles_of
from expertload.desk.people.sessions import make_link
from expertload.desk.queue.answers import answer
from expertload.desk.queue.claims import claim, skip
from expertload.desk.settings import Rules
from expertload.desk.store.database import HOUR, Transaction
from expertload.desk.trail.training import export_for_training
from expertload.desk.watch.challengers import adopt, challengers_of
from expertload.desk.watch.policies import activate, add_policy, decide_all_waiting
from expertload.desk.watch.state import state_of
from expertload.operating_point import CertifiedPoint, certify

CLASSES = tuple("0123456789")
FIRST, SECOND = "model of May", "model of June"
N_TRAIN, N_CERTIFY = 80, 400
N_HIDDEN, RIDGE, SHARPNESS = 1_000, 3.0, 8.0
TARGET_ACCURACY = 0.95
LEARN_AFTER = 300  # the second network learns from what experts answered of the first images
BRIGHTEST = 16.0
ENLARGED = 16  # by how much the sent image is larger than the original

# Many cases are checked, so that results show within minutes.
DEMO_RULES = Rules(
    classes=CLASSES,
    quality_rate=0.5,
    raised_rate=0.5,
    certify_share=0.2,
    lease_seconds=300,
    undo_seconds=20,
    due_seconds=600,
)
PEOPLE = (
    ("you", ("reader", "arbiter", "manager", "auditor")),
    ("Kim (simulated)", ("reader",)),
    ("Robin (simulated)", ("arbiter",)),
)

N_CASES, AT_ONCE, HOURS = 1300, 50, 22  # of the day that is played
STEPS = [0.3, 1.0]  # the share of cases that the new model decides
SENT_AT_ONCE = 60  # live cases, so that there is something to see
SECONDS_A_READING = 4.0  # of a colleague


# Returns the probabilities of images whose pixels go from 0 to 16.
Network: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Digits:
    """A trained network, its certified policy, and images it has never seen.

    A second network, once there is one, answers in shadow.
    """

    network: Network
    point: CertifiedPoint
    images: FloatArray
    labels: IntArray
    challenger: Network | None = None

    def cases(self, *, run: str, first: int = 0, drift_after: int | None = None) -> Iterator[Any]:
        """Yield (case, label) without end; after `drift_after` cases, the images are mirrored."""
        rng = np.random.default_rng((1, first))
        for number in count():
            which = first + number
            again = which >= len(self.images)
            if again:  # never one that the second network may have learnt from
                unused = len(self.images) - LEARN_AFTER
                which = LEARN_AFTER + (which - len(self.images)) % unused
            image = self.images[which : which + 1]
            if drift_after is not None and number >= drift_after:
                image = image.reshape(1, 8, 8)[:, :, ::-1].reshape(1, 64)
            spoiled = spoil(image, rng)
            case = {
                "key": f"{run}-{number:06d}",
                "model": FIRST,
                "probabilities": _answer(self.network, spoiled),
                "body": {"kind": "image", "content": _png(spoiled[0])},
            }
            if self.challenger is not None:
                case["shadow"] = {SECOND: _answer(self.challenger, spoiled)}
            if again:  # the same image with other noise: not independent of the first
                case["cluster"] = f"image-{which}"
            yield case, CLASSES[self.labels[which]]


def train() -> Digits:
    """Train a network on a few spoiled digits and certify a policy on others; takes a second."""
    with np.load(io.BytesIO(files("expertload.desk").joinpath("digits.npz").read_bytes())) as file:
        images, labels = file["images"].astype(np.float64), file["labels"].astype(np.int64)
    rng = np.random.default_rng(0)
    parts = np.split(rng.permutation(len(images)), [N_TRAIN, N_TRAIN + N_CERTIFY])
    training, certifying, unseen = parts
    network = trained(spoil(images[training], rng), labels[training])
    point = certify(
        np.array(CLASSES)[labels[certifying]],
        network(spoil(images[certifying], rng)),
        target_accuracy=TARGET_ACCURACY,
        labels=list(CLASSES),
        model_name=FIRST,
    )
    return Digits(network, point, images[unseen], labels[unseen])


def trained(images: FloatArray, labels: IntArray) -> Network:
    """Return a network whose hidden layer is random, so that it needs no training loop.

    Its last layer is a ridge regression on the labels (Rahimi and Recht, "Weighted sums of random
    kitchen sinks", 2008).
    """
    hidden = np.random.default_rng(0).normal(0, 1 / 8, (images.shape[1] + 1, N_HIDDEN))

    def activations(images: FloatArray) -> FloatArray:
        pixels = np.column_stack([images / BRIGHTEST, np.ones(len(images))])
        return np.maximum(pixels @ hidden, 0)

    seen, wanted = activations(images), np.eye(len(CLASSES))[labels]
    last = np.linalg.solve(seen.T @ seen + RIDGE * np.eye(N_HIDDEN), seen.T @ wanted)
    return lambda images: softmax(SHARPNESS * (activations(images) @ last), axis=1)


def spoil(images: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Add a little or much noise to images."""
    strength = rng.choice([0.0, 1.0, 3.0], size=(len(images), 1), p=[0.4, 0.4, 0.2])
    spoiled: FloatArray = np.clip(images + rng.normal(0, 1, images.shape) * strength, 0, BRIGHTEST)
    return spoiled


def _answer(network: Network, image: FloatArray) -> dict[str, float]:
    return dict(zip(CLASSES, network(image)[0].tolist(), strict=True))


def _png(image: FloatArray) -> str:
    pictures = require_extra("PIL.Image", "desk", "expertload desk demo")
    pixels = np.rint(255 * (1 - image.reshape(8, 8) / BRIGHTEST)).astype(np.uint8)
    out = io.BytesIO()
    large = pictures.fromarray(pixels).resize((8 * ENLARGED,) * 2, pictures.Resampling.BICUBIC)
    large.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


# ------------------------------------------------------------------ the desk


def prepare(desk: Desk, digits: Digits) -> tuple[str, list[int]]:
    """Activate the policy; return the visitor's link, and the numbers of the colleagues.

    On a new desk, the policy begins with the day that is played.
    """
    real = desk.clock
    if not desk.read(state_of)["counts"]["received"]:
        desk.clock = lambda: real() - HOURS * HOUR
    desk.write(activate, desk.write(add_policy, digits.point.to_json()))
    desk.clock = real
    visitor, *colleagues = [desk.write(_find_or_add, name, roles) for name, roles in PEOPLE]
    return desk.acting(visitor).write(make_link, visitor), colleagues


def _find_or_add(transaction: Transaction, name: str, roles: Sequence[str]) -> int:
    known = find_user(transaction, name)  # in a folder of an earlier demo
    return add_user(transaction, name, roles) if known is None else int(known.id)


# ------------------------------------------------------------------ a day, played in seconds


class Round(NamedTuple):
    """What happened to some cases.

    Attributes
    ----------
    load : float
        The share that experts read.
    right : float
        The share of automatic decisions that were right.
    news : str
        What the manager did afterwards, if anything.
    digits : Digits
        With the second network, once there is one.
    """

    load: float
    right: float
    news: str
    digits: Digits


def play(desk: Desk, digits: Digits, colleagues: list[int]) -> Iterator[Round]:
    """Play the day on a new desk, round by round."""
    real, steps, labels = desk.clock, list(STEPS), dict[str, str]()
    try:
        for first in range(0, N_CASES, AT_ONCE):
            sent = list(islice(digits.cases(run=f"day-{first:04d}", first=first), AT_ONCE))
            labels |= {case["key"]: label for case, label in sent}
            desk.clock = _earlier(real, first)
            outcomes = desk.write(receive, [read_case(case) for case, _ in sent])
            desk.clock = _earlier(real, first + AT_ONCE)
            while any(desk.write(_read_some, user, labels) for user in colleagues):
                pass
            right = [
                outcome.label == labels[outcome.key]
                for outcome in outcomes
                if isinstance(outcome, Outcome) and outcome.status == "decided"
            ]
            news = ""
            if first + AT_ONCE == LEARN_AFTER:
                digits, news = _learn(desk, digits)
            elif digits.challenger is not None and steps:
                news = _take_over(desk, steps)
            yield Round(1 - len(right) / AT_ONCE, sum(right) / max(len(right), 1), news, digits)
    finally:
        desk.clock = real


def _earlier(clock: Callable[[], int], n_sent: int) -> Callable[[], int]:
    """Return a clock that shows the time of the day at which so many cases had been sent."""
    behind = HOURS * HOUR * (N_CASES - n_sent) // N_CASES
    return lambda: clock() - behind


def _take_over(desk: Desk, steps: list[float]) -> str:
    """Let the second network decide more of the cases if that is safe."""
    for challenger in desk.read(challengers_of):
        if challenger.share or challenger.may_switch:
            share = steps.pop(0)
            desk.write(adopt, SECOND, share)
            decide_all_waiting(desk)
            return f"{challenger.summary()} It decides {share:.0%} of cases from now on."
    return ""


def _learn(desk: Desk, digits: Digits) -> tuple[Digits, str]:
    """Train on what experts have answered, as anybody would: from an exported folder."""
    with tempfile.TemporaryDirectory() as folder:
        export_for_training(desk, Path(folder, "answers"))
        table = Path(folder, "answers", "metadata.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(table)))
    # A key ends with the first place of its round, and the number of the case in it.
    places = [sum(map(int, row["key"].split("-")[-2:])) for row in rows]
    rng = np.random.default_rng(0)
    images = np.concatenate([spoil(digits.images[places], rng) for _ in range(2)])
    labels = np.tile([int(row["label"]) for row in rows], 2)
    news = f"A second network has learnt from {len(rows)} answers and answers in shadow."
    return replace(digits, challenger=trained(images, labels)), news


def _read_some(transaction: Transaction, user: int, labels: dict[str, str]) -> int:
    """Answer up to 25 cases; return how many."""
    for n in range(25):
        held = claim(transaction, user, arbiter=True)
        if held is None:
            return n
        answer(transaction, user, held.lease, labels[held.key], held.lease[:60])
    return 25


# ------------------------------------------------------------------ live


class Cast:
    """A sender of cases and simulated readers, each in its own thread.

    Parameters
    ----------
    desk : Desk
        The desk, which is served meanwhile.
    cases : iterator
        Pairs of (case, true label).
    colleagues : sequence of int
        The numbers of the readers.
    rate : float
        Cases per second.
    """

    def __init__(
        self, desk: Desk, cases: Iterator[Any], colleagues: Sequence[int], *, rate: float
    ) -> None:
        self.desk, self.rate = desk, rate
        self._cases, self._truth = cases, dict[str, str]()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._send, daemon=True)]
        for user in colleagues:
            self._threads.append(threading.Thread(target=self._read, args=(user,), daemon=True))

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop; everybody first finishes what they are doing."""
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def _send(self) -> None:
        self._send_some(SENT_AT_ONCE)
        while not self._over.wait(random.expovariate(self.rate)):
            self._send_some(1)

    def _send_some(self, n: int) -> None:
        sent = list(islice(self._cases, n))
        self._truth |= {case["key"]: label for case, label in sent}
        self.desk.write(receive, [read_case(case) for case, _ in sent])

    def _read(self, user: int) -> None:
        desk = self.desk.acting(user)
        is_arbiter = "arbiter" in desk.read(roles_of, user)
        while not self._over.wait(SECONDS_A_READING * random.uniform(0.5, 1.5)):
            held = desk.write(claim, user, arbiter=is_arbiter)
            if held is None:
                continue
            self._over.wait(SECONDS_A_READING / 4)
            label = self._truth.get(held.key)
            if label is None:  # a case of an earlier demo in the same folder
                desk.write(skip, user, held.lease, "from an earlier demo")
                continue
            if random.random() < 0.02:
                label = random.choice(CLASSES)
            desk.write(answer, user, held.lease, label, held.lease[:60])
