import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload.lab.data.dataset import long_tail_counts, pick_of_each_class, stratified_holdout

label_lists = st.lists(st.integers(0, 6), min_size=1, max_size=80)


@given(label_lists, st.floats(0, 1), st.integers(0, 5))
def test_holding_out_partitions_and_keeps_proportions(labels, share, seed):
    labels = np.array(labels)
    kept, held_out = stratified_holdout(labels, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(labels)))
    assert len(held_out) == round(len(labels) * share)
    counts = np.bincount(labels)
    assert (np.abs(np.bincount(labels[held_out], minlength=len(counts)) - share * counts) < 1).all()


def test_the_split_is_the_same_for_ever():
    labels = np.arange(1000) % 10
    _, held_out = stratified_holdout(labels, 0.1, seed=0)
    digest = hashlib.sha256(held_out.astype("<i8").tobytes()).hexdigest()
    assert digest.startswith("e2f0aa17ea1d9cbe")


def test_another_seed_gives_another_split():
    labels = np.arange(1000) % 10
    assert set(stratified_holdout(labels, 0.1, 0)[1]) != set(stratified_holdout(labels, 0.1, 1)[1])


@given(label_lists, st.integers(0, 9))
def test_picking_takes_as_many_of_each_class_as_there_are(labels, count):
    labels = np.array(labels)
    sizes = np.bincount(labels, minlength=7)
    picked = pick_of_each_class(labels, np.full(7, count), seed=3)
    assert np.bincount(labels[picked], minlength=7).tolist() == np.minimum(sizes, count).tolist()


@pytest.mark.parametrize(("imbalance", "smallest"), [(100, 4), (50, 9), (10, 45)])
def test_long_tails_of_cifar100(imbalance, smallest):
    counts = long_tail_counts(450, 100, imbalance)
    assert counts[0] == 450
    assert counts[-1] == smallest
    assert (np.diff(counts) <= 0).all()
    assert counts.tolist() == [int(450 * (1 / imbalance) ** (c / 99.0)) for c in range(100)]


def test_a_tail_of_one_class_is_that_class():
    assert long_tail_counts(7, 1, 100).tolist() == [7]
