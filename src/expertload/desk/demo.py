"""A desk to try out: real images, a real network, a certified policy, and simulated colleagues.

The handwritten digits come with scikit-learn, so nothing is downloaded. Some are spoiled to need an
expert. Each image is used for only one purpose: to train, to certify, or to be sent to the desk.
"""

from __future__ import annotations

import base64
import io
import random
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from expertload._check import require_extra
from expertload._names import Role
from expertload._typing import FloatArray, IntArray
from expertload.desk.client import DeskClient
from expertload.desk.desk import Desk
from expertload.desk.people.accounts import add_token, add_user, find_user
from expertload.desk.people.sessions import make_link
from expertload.desk.settings import Rules
from expertload.desk.watch.policies import activate, add_policy
from expertload.monitoring import required_audits
from expertload.operating_point import CertifiedPoint, certify

CLASSES = tuple("0123456789")
N_TRAIN, N_CERTIFY, VERSIONS = 600, 600, 4
TARGET_ACCURACY = 0.95
BRIGHTEST = 16.0
ENLARGED = 16  # by how much the sent image is larger than the original

# Many cases are checked, so that results show within minutes.
DEMO_RULES = Rules(
    classes=CLASSES,
    quality_rate=0.3,
    raised_rate=0.5,
    second_share=0.1,
    audit_second_share=1.0,
    lease_seconds=300,
    undo_seconds=20,
    due_seconds=600,
)
COLLEAGUES: tuple[tuple[str, Role], ...] = (
    ("Kim (simulated)", "reader"),
    ("Robin (simulated)", "arbiter"),
)
VISITOR = "you"


def what_audits_save() -> str:
    """Say what it saves to audit doubtful decisions more often, by simulation.

    Examples
    --------
    >>> from expertload.desk.demo import what_audits_save
    >>> what_audits_save()[-46:]
    'if 7 in 10 errors are among them, and not 182.'
    """
    fall, ratio = 2 * TARGET_ACCURACY - 1, DEMO_RULES.doubtful_ratio
    alike = required_audits(TARGET_ACCURACY, fall, n_rounds=800)
    by_doubt = required_audits(
        TARGET_ACCURACY, fall, doubtful_ratio=ratio, doubtful_errors=0.7, n_rounds=800
    )
    return (
        f"The least confident fifth of its decisions is audited {ratio:g} times as often: if "
        f"errors double, {by_doubt.mean:.0f} audits find it if 7 in 10 errors are among them, "
        f"and not {alike.mean:.0f}."
    )


@dataclass(frozen=True)
class Digits:
    """A trained network, its certified policy, and images it has never seen."""

    network: Any
    point: CertifiedPoint
    images: FloatArray
    labels: IntArray

    def cases(self, *, run: str, drift_after: int | None = None, seed: int = 1) -> Iterator[Any]:
        """Yield (case, label) without end; after `drift_after` cases, the images are mirrored."""
        rng = np.random.default_rng(seed)
        for number in range(10**9):
            which = number % len(self.images)
            image = self.images[which : which + 1]
            if drift_after is not None and number >= drift_after:
                image = image.reshape(1, 8, 8)[:, :, ::-1].reshape(1, 64)
            spoiled = _spoil(image, rng)
            proba = self.network.predict_proba(spoiled / BRIGHTEST)[0]
            yield (
                _case(f"{run}-{number:06d}", spoiled[0], proba, which),
                CLASSES[self.labels[which]],
            )


def train(*, seed: int = 0) -> Digits:
    """Train a network on spoiled digits and certify a policy on others; takes a few seconds."""
    datasets = require_extra("sklearn.datasets", "sklearn", "expertload desk demo")
    neural = require_extra("sklearn.neural_network", "sklearn", "expertload desk demo")
    images, labels = datasets.load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    parts = np.split(rng.permutation(len(images)), [N_TRAIN, N_TRAIN + N_CERTIFY])
    training, certifying, unseen = parts
    many = np.concatenate([_spoil(images[training], rng) for _ in range(VERSIONS)])
    network = neural.MLPClassifier((64,), alpha=0.01, max_iter=40, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # training stops before it converges, on purpose
        network.fit(many / BRIGHTEST, np.tile(labels[training], VERSIONS))
    point = certify(
        np.array(CLASSES)[labels[certifying]],
        network.predict_proba(_spoil(images[certifying], rng) / BRIGHTEST),
        target_accuracy=TARGET_ACCURACY,
        labels=list(CLASSES),
    )
    return Digits(network, point, images[unseen], labels[unseen])


def _spoil(images: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Blur some images, and add a little or much noise to most of them."""
    strength = rng.choice([0.0, 1.0, 2.0, 3.0], size=len(images), p=[0.3, 0.3, 0.25, 0.15])
    square = images.reshape(-1, 8, 8)
    shifted = [np.roll(square, (dy, dx), (1, 2)) for dy in (0, 1) for dx in (0, 1)]
    blurred = np.where((strength >= 2)[:, None, None], sum(shifted) / 4, square)
    noise = rng.normal(0, 1.9 * strength[:, None], images.shape)
    return np.clip(blurred.reshape(images.shape) + noise, 0, BRIGHTEST)


def _case(key: str, image: FloatArray, proba: FloatArray, which: int) -> dict[str, Any]:
    return {
        "key": key,
        "probabilities": dict(zip(CLASSES, _rounded(proba), strict=True)),
        "cluster": f"image-{which}",
        "body": {"kind": "image", "content": _png(image)},
    }


def _rounded(proba: FloatArray) -> list[float]:
    """Return plain floats that sum to one."""
    return [float(p) for p in proba / proba.sum()]


def _png(image: FloatArray) -> str:
    pictures = require_extra("PIL.Image", "desk", "expertload desk demo")
    pixels = np.rint(255 * (1 - image.reshape(8, 8) / BRIGHTEST)).astype(np.uint8)
    out = io.BytesIO()
    large = pictures.fromarray(pixels).resize((8 * ENLARGED,) * 2, pictures.Resampling.BICUBIC)
    large.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


# ------------------------------------------------------------------ the desk


def prepare(desk: Desk, digits: Digits) -> tuple[str, str, list[str]]:
    """Activate the policy; return the visitor's link, and the tokens of sender and colleagues."""
    number = desk.write(add_policy, digits.point.to_json())
    desk.write(activate, number)
    known = desk.read(find_user, VISITOR)
    roles = ("reader", "arbiter", "manager", "auditor")
    user = known.id if known is not None else desk.write(add_user, VISITOR, roles)
    sender = desk.write(add_token, "the model", "api")
    colleagues = [desk.write(add_token, name, role) for name, role in COLLEAGUES]
    return desk.acting(user).write(make_link, user), sender, colleagues


# ------------------------------------------------------------------ who uses it


class Cast:
    """A sender of cases and simulated readers, each in its own thread.

    Parameters
    ----------
    address : str
        The address of the desk.
    cases : iterator
        Pairs of (case, true label).
    sender : str
        The sender's token.
    colleagues : sequence of str
        The readers' tokens.
    rate : float
        Cases per second.
    first : int
        Number of cases that are sent immediately, so that there is something to see.
    seconds_a_reading : float
        How long a colleague takes.
    """

    def __init__(
        self,
        address: str,
        cases: Iterator[Any],
        *,
        sender: str,
        colleagues: Sequence[str],
        rate: float = 1.0,
        first: int = 60,
        seconds_a_reading: float = 4.0,
    ) -> None:
        self.address, self.rate, self.first = address, rate, first
        self.seconds_a_reading = seconds_a_reading
        self._cases, self._truth = cases, dict[str, str]()
        self._over = threading.Event()
        works = [(self._send, sender), *((self._read, token) for token in colleagues)]
        self._threads = [
            threading.Thread(target=self._play, args=part, daemon=True) for part in works
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop; everybody first finishes the request they are in."""
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def _play(self, part: Any, token: str) -> None:
        """Run one of the parts; if the desk does not answer, try again after a second."""
        errors = (require_extra("httpx", "desk", "expertload desk demo").HTTPError, OSError)
        while not self._over.is_set():
            try:
                part(token)
            except errors:
                self._over.wait(1.0)

    def _send(self, token: str) -> None:
        with DeskClient(self.address, token) as client:
            list(client.send_many([self._next() for _ in range(self.first)]))
            self.first = 0
            while not self._over.wait(random.expovariate(self.rate)):
                client.send(self._next())

    def _next(self) -> dict[str, Any]:
        case, label = next(self._cases)
        self._truth[case["key"]] = label
        return dict(case)

    def _read(self, token: str) -> None:
        httpx = require_extra("httpx", "desk", "expertload desk demo")
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=self.address, headers=headers, timeout=30) as client:
            while not self._over.wait(self.seconds_a_reading * random.uniform(0.5, 1.5)):
                self._read_one(client)

    def _read_one(self, client: Any) -> None:
        taken = client.post("/api/claims")
        if taken.status_code != 200:
            return
        held = taken.json()
        self._over.wait(self.seconds_a_reading / 4)
        label = self._truth.get(held["key"])
        path = f"/api/claims/{held['lease']}"
        if label is None:  # a case of an earlier demo in the same folder: its label is not known
            client.post(f"{path}/skip", json={"reason": "from an earlier demo"})
            return
        if random.random() < 0.02:
            label = random.choice(held["classes"])
        submission = f"{held['lease'][:40]}-{time.monotonic_ns()}"
        client.post(f"{path}/answer", json={"label": label, "submission": submission})
