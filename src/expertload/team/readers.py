"""Several readers a case: their answers, a consensus, and how good each of them is.

Consensus (Dawid and Skene 1979): each reader has a confusion matrix, and given the truth readers
err independently. EM takes turns between the probability of each class for each case and the
confusion matrices. Matrices are drawn towards that of all readers together, by as many imagined
readings of each class as there are classes, so that a reader with few readings counts as an average
one. Cases whose truth is known (golden cases) keep it, and tell about their readers.

A reader's accuracy on golden cases has an interval that holds at all times together: it may be
looked at after every reading. With a uniform prior on the accuracy p, the ratio of the mixture to
the likelihood of p is a fair game if p is true, and reaches 1 / alpha with a probability of at most
alpha (Ville); accuracies for which it has are refuted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from expertload._check import (
    as_array,
    check_count,
    check_fraction,
    check_level,
    check_option,
    check_same_length,
    insufficient,
    message,
    random_generator,
)
from expertload._label_arrays import match_answers
from expertload._labels import (
    ClassName,
    class_key,
    is_missing,
    listed,
    plain_classes,
    same_spelling,
)
from expertload._typing import AnyArray, ArrayLike, FloatArray, IntArray, Seed
from expertload.exceptions import LabelError, ParameterError
from expertload.significance import Interval
from expertload.significance.interval import rate_interval

Method = Literal["dawid_skene", "majority"]
MOST_ROUNDS = 500
CONVERGED = 1e-6
# How many times the odds of the other readers a reader's odds of an error are; one bet on each.
ODDS = (1.5, 2.0, 3.0, 5.0)
# Halvings that find the end of an interval to the last digits.
HALVINGS = 60


class Reader(NamedTuple):
    """How good one reader is on cases whose truth is known.

    Attributes
    ----------
    name : str
        The reader.
    n_readings : int
        Readings of cases whose truth is known.
    accuracy : Interval
        Holds at all times together: it may be looked at after every reading.
    confusion : ndarray of shape (n_classes, n_classes)
        Counts: the true class by row, the reader's answer by column.
    evidence : float
        Evidence that this reader errs more often than the others did on these cases. An equally
        good reader ever reaches 20 with a probability of at most 1/20, however often one looks. See
        `reader_evidence`.
    """

    name: str
    n_readings: int
    accuracy: Interval
    confusion: IntArray
    evidence: float


class Consensus(NamedTuple):
    """What the readers of each case agree on.

    Attributes
    ----------
    cases : tuple of str
        The cases.
    probabilities : ndarray of shape (n_cases, n_classes)
        The probability of each class; of a majority, its share of the readings.
    answers : ndarray of shape (n_cases,)
        The class of the highest probability; of equals, the first.
    confusions : ndarray of shape (n_readers, n_classes, n_classes) or None
        The probability of each answer (last axis) given the true class; None for a majority.
    """

    cases: tuple[str, ...]
    probabilities: FloatArray
    answers: AnyArray
    confusions: FloatArray | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Readings:
    """Answers of several readers: one row per reading.

    Make them with `from_frame`. Cases, readers and answers are numbers of `cases`, `readers` and
    `labels`.

    Examples
    --------
    >>> from expertload.team import Readings
    >>> readings = Readings.from_frame(
    ...     {
    ...         "case": ["a", "a", "a", "b", "b", "b"],
    ...         "reader": ["Ann", "Bo", "Cy", "Ann", "Bo", "Cy"],
    ...         "answer": ["cat", "cat", "dog", "dog", "dog", "dog"],
    ...     }
    ... )
    >>> readings
    Readings(n=6, cases=2, readers=3, labels=('cat', 'dog'))
    >>> readings.consensus(method="majority").answers.tolist()
    ['cat', 'dog']
    """

    case: IntArray
    reader: IntArray
    answer: IntArray
    cases: tuple[str, ...]
    readers: tuple[str, ...]
    labels: tuple[ClassName, ...]

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        case: str = "case",
        reader: str = "reader",
        answer: str = "answer",
        labels: ArrayLike | None = None,
    ) -> Readings:
        """Validate a frame of readings.

        Parameters
        ----------
        frame : frame or mapping
            Anything whose columns are reached by ``frame[name]``: pandas, Polars, Arrow, or a
            dictionary of lists.
        case, reader, answer : str
            The columns.
        labels : array-like, optional
            The classes, for example those of the model; by default those that occur, sorted.

        Returns
        -------
        Readings
            A second reading of a case by the same reader, a missing value, or an answer outside
            the classes raises an error.
        """
        columns = [_column(frame, name) for name in (case, reader, answer)]
        check_same_length(**dict(zip(("case", "reader", "answer"), columns, strict=True)))
        cases, case_of = np.unique(columns[0], return_inverse=True)
        readers, reader_of = np.unique(columns[1], return_inverse=True)
        names = (
            _classes(columns[2]) if labels is None else tuple(as_array(labels, "labels").tolist())
        )
        given = match_answers(columns[2], names, len(case_of))
        _check_once(case_of, reader_of, cases, readers)
        return cls(case_of, reader_of, given, tuple(cases.tolist()), tuple(readers.tolist()), names)

    def __len__(self) -> int:
        return len(self.case)

    def __repr__(self) -> str:
        return (
            f"Readings(n={len(self)}, cases={len(self.cases)}, readers={len(self.readers)}, "
            f"labels={self.labels})"
        )

    # ------------------------------------------------------------------ one answer a case

    def consensus(
        self, *, method: Method = "dawid_skene", known: Mapping[Any, Any] | None = None
    ) -> Consensus:
        """Return what the readers of each case agree on.

        Parameters
        ----------
        method : {"dawid_skene", "majority"}, default="dawid_skene"
            - "dawid_skene" weighs readers by how they err. It pays where readers differ, and each
              has read many cases: some tens of each class.
            - "majority" counts each reading the same. Of three equally good readers, it does as
              well.
        known : mapping, optional
            The truth of some cases, such as golden ones; for "dawid_skene".

        Returns
        -------
        Consensus
            Probabilities and answers, in the order of `cases`.
        """
        check_option(method, ("dawid_skene", "majority"), "method")
        votes = np.zeros((len(self.cases), len(self.labels)))
        np.add.at(votes, (self.case, self.answer), 1.0)
        shares = votes / votes.sum(axis=1, keepdims=True)
        confusions = None
        if method == "dawid_skene":
            shares, confusions = self._weigh(shares, self._truth({} if known is None else known))
        answers = np.asarray(self.labels)[shares.argmax(axis=1)]
        return Consensus(self.cases, shares, answers, confusions)

    def _weigh(self, shares: FloatArray, fixed: IntArray) -> tuple[FloatArray, FloatArray]:
        """Take turns between the classes of cases and the confusions of readers."""
        n_cases, n_classes = shares.shape
        is_known = fixed >= 0
        truth = np.eye(n_classes)[fixed[is_known]]
        shares = shares.copy()
        shares[is_known] = truth
        for _ in range(MOST_ROUNDS):
            confusions = self._confusions(shares)
            prior = (shares.sum(axis=0) + 1) / (n_cases + n_classes)
            logs = np.tile(np.log(prior), (n_cases, 1))
            np.add.at(logs, self.case, np.log(confusions[self.reader, :, self.answer]))
            new = np.exp(logs - logs.max(axis=1, keepdims=True))
            new /= new.sum(axis=1, keepdims=True)
            new[is_known] = truth
            moved = float(np.abs(new - shares).max())
            shares = new
            if moved < CONVERGED:
                break
        return shares, confusions

    def _confusions(self, shares: FloatArray) -> FloatArray:
        n_classes = len(self.labels)
        counts = np.zeros((len(self.readers), n_classes, n_classes))
        np.add.at(counts.transpose(0, 2, 1), (self.reader, self.answer), shares[self.case])
        pool = counts.sum(axis=0) + 1 / n_classes
        imagined = n_classes * pool / pool.sum(axis=1, keepdims=True)
        counts += imagined
        return np.asarray(counts / counts.sum(axis=2, keepdims=True))

    def draw(self, cases: ArrayLike, *, random_state: Seed = 0) -> AnyArray:
        """Return the answer of one reader, drawn at random, to each of these cases.

        For `expertload.Cases.from_predictions`, where each case will be read by one of these
        readers.

        Parameters
        ----------
        cases : array-like of shape (n_cases,)
            Names of cases, each at most once.
        random_state : int, Generator or None, default=0
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_cases,)
            Classes; None where nobody read a case.
        """
        order = random_generator(random_state).permutation(len(self))
        read, first = np.unique(self.case[order], return_index=True)
        drawn = {
            self.cases[c]: self.labels[a]
            for c, a in zip(read, self.answer[order[first]], strict=True)
        }
        return self._look_up(cases, drawn)

    def answers(self, cases: ArrayLike, consensus: Consensus) -> AnyArray:
        """Return the consensus on each of these cases, None where nobody read a case."""
        agreed = dict(zip(consensus.cases, consensus.answers.tolist(), strict=True))
        return self._look_up(cases, agreed)

    def _look_up(self, cases: ArrayLike, answers: Mapping[str, Any]) -> AnyArray:
        names = [same_spelling(name) for name in as_array(cases, "cases").tolist()]
        if not any(name in answers for name in names):
            got = f"{listed(names, 3)}; readings are of {listed(self.cases, 3)}"
            raise ParameterError(message("cases", "must name cases that were read", got))
        return np.array([answers.get(name) for name in names], dtype=object)

    # ------------------------------------------------------------------ each reader

    def quality(
        self, known: Mapping[Any, Any], *, fewest_readings: int = 10, confidence_level: float = 0.95
    ) -> tuple[Reader, ...]:
        """Return how good each reader is on cases whose truth is known.

        Parameters
        ----------
        known : mapping
            The truth of golden cases by their names. Cases must be independent: of a patient's
            images, name one.
        fewest_readings : int, default=10
            Readers with fewer readings of golden cases are left out.
        confidence_level : float, default=0.95
            The level of the intervals, each at all times together.

        Returns
        -------
        tuple of Reader
            In the order of `readers`.
        """
        fewest = check_count(fewest_readings, "fewest_readings")
        level = check_level(confidence_level)
        truth = self._truth(known)[self.case]
        golden = truth >= 0
        n_classes = len(self.labels)
        counts = np.zeros((len(self.readers), n_classes, n_classes), np.int64)
        np.add.at(counts, (self.reader[golden], truth[golden], self.answer[golden]), 1)
        enough = np.flatnonzero(counts.sum(axis=(1, 2)) >= fewest)
        if not len(enough):
            wanted = f"readers of at least {fewest} cases whose truth is known"
            most = str(int(counts.sum(axis=(1, 2)).max(initial=0)))
            raise insufficient(wanted, f"at most {most}", "add golden cases")
        return tuple(self._reader(int(number), counts, level) for number in enough)

    def _reader(self, number: int, counts: IntArray, level: float) -> Reader:
        own, others = counts[number], counts.sum(axis=0) - counts[number]
        n, right = int(own.sum()), int(np.trace(own))
        rate = (int(others.sum() - np.trace(others)) + 1) / (int(others.sum()) + 2)
        evidence = reader_evidence(n - right, n, others_error=rate)
        return Reader(self.readers[number], n, anytime_interval(right, n, level), own, evidence)

    def _truth(self, known: Mapping[Any, Any]) -> IntArray:
        """Return the class of each case whose truth is known, -1 for the others."""
        given = {same_spelling(name): value for name, value in known.items()}
        strangers = sorted(set(given) - set(self.cases))
        if strangers and len(strangers) == len(given):
            got = f"{listed(strangers, 3)}; readings are of {listed(self.cases, 3)}"
            raise ParameterError(message("known", "must name cases that were read", got))
        if not given:
            return np.full(len(self.cases), -1)
        values = np.array([given.get(name) for name in self.cases], dtype=object)
        return match_answers(values, self.labels, len(values), name="known")


def reader_evidence(n_wrong: int, n_readings: int, *, others_error: float) -> float:
    """Compute the evidence that a reader errs more often than the others.

    Parameters
    ----------
    n_wrong, n_readings : int
        The reader's errors, and readings, of golden cases.
    others_error : float
        How often the other readers err on such cases, in (0, 1).

    Returns
    -------
    float
        The capital of a gambler who bets, at fair odds, that the reader's odds of an error are 1.5
        to 5 times those of the others. If they are not larger, it ever reaches 20 with a
        probability of at most 1/20, however often one looks.

    Examples
    --------
    >>> from expertload.team import reader_evidence
    >>> print(f"{reader_evidence(20, 100, others_error=0.1):.1f}")
    35.9
    """
    wrong = check_count(n_wrong, "n_wrong", minimum=0)
    n = check_count(n_readings, "n_readings", minimum=0)
    if wrong > n:
        raise ParameterError(message("n_wrong", f"must be at most n_readings ({n})", wrong))
    rate = check_fraction(others_error, "others_error", inclusive=False)
    odds = np.array(ODDS) * rate / (1 - rate)
    bet = odds / (1 + odds)
    logs = wrong * np.log(bet / rate) + (n - wrong) * np.log((1 - bet) / (1 - rate))
    return float(np.exp(np.minimum(logs, 460.0)).mean())


def anytime_interval(right: int, n: int, level: float) -> Interval:
    """Return the accuracies that no look so far refutes."""
    wrong = n - right
    mixture = float(betaln(right + 1, wrong + 1))
    best = right / n

    def refuted(p: float) -> bool:
        likelihood = float(xlogy(right, p) + xlog1py(wrong, -p))
        return mixture - likelihood >= -math.log(1 - level)

    ends = [_boundary(refuted, best, outside) for outside in (0.0, 1.0)]
    return replace(rate_interval(best, n, level), low=ends[0], high=ends[1])


def _boundary(refuted: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the last accuracy, from `inside` towards `outside`, that is not refuted."""
    if not refuted(outside):
        return outside
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if refuted(middle) else (middle, outside)
    return outside


# ------------------------------------------------------------------ a frame of readings


def _column(frame: Any, name: str) -> AnyArray:
    """Return a column of a frame as text, one spelling each."""
    try:
        values = as_array(frame[name], name)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        hint = "name the columns with case=, reader= and answer="
        raise ParameterError(
            message("frame", f"must have a column {name!r}", "none", hint)
        ) from error
    missing = [row for row, value in enumerate(values.tolist()) if is_missing(value) or value == ""]
    if missing:
        hint = "leave such readings out"
        raise LabelError(message(name, "must not be missing", f"none in row {missing[0]}", hint))
    return np.array([same_spelling(value) for value in values.tolist()], dtype=np.str_)


def _classes(answers: AnyArray) -> tuple[ClassName, ...]:
    """Return the classes that occur, as numbers if they are."""
    names = plain_classes(sorted({class_key(value) for value in answers.tolist()}))
    return tuple(sorted(names)) if all(isinstance(name, int) for name in names) else names


def _check_once(case: IntArray, reader: IntArray, cases: AnyArray, readers: AnyArray) -> None:
    """Raise if a reader has read a case twice."""
    pairs, counts = np.unique(np.stack([case, reader]), axis=1, return_counts=True)
    if (counts > 1).any():
        twice = pairs[:, counts.argmax()]
        got = f"two of {cases[twice[0]]} by {readers[twice[1]]}"
        hint = "keep the first, which was given without knowing another"
        raise ParameterError(
            message("frame", "must hold one reading of a case by a reader", got, hint)
        )
