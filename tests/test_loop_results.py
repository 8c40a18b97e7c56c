"""The loop played with made-up cases, and its tables from the CSV."""

from __future__ import annotations

import csv
from statistics import fmean

import numpy as np
import pytest
import torch
from scipy.stats import t
from tools.evidence import files, loop, loop_tables
from tools.evidence.pages import make

SMALL = loop.Setting("Made up", 0.8, n_first=60, n_round=80, n_certify=300, n_test=300)


@pytest.fixture(scope="module")
def cases():
    """Two classes, apart by a margin that differs from case to case."""
    rng = np.random.default_rng(0)
    target = rng.integers(2, size=SMALL.n_cases + 50)
    features = rng.standard_normal((len(target), 5)) + 1.2 * target[:, None]
    return loop.Labelled(torch.from_numpy(features).float(), target, np.ones(len(target)))


@pytest.fixture
def played(cases, tmp_path, monkeypatch):
    """The CSV of two seeds of all arms, which tables are then made of."""
    monkeypatch.setattr(loop, "LEAST_STEPS", 20)
    monkeypatch.setattr(loop, "MOST_STEPS", 20)
    monkeypatch.setitem(loop.SETTINGS, "made-up", SMALL)
    monkeypatch.setattr(loop, "load", lambda name, data_dir: cases)
    monkeypatch.setattr(files, "LOOP", tmp_path / "loop.csv")
    list(loop.play_loops(["made-up"], [0, 1], into=files.LOOP))
    with files.LOOP.open(newline="") as stream:
        return list(csv.DictReader(stream))


def of(lines, arm, name):
    return {
        (int(line["seed"]), int(line["round"])): float(line[name])
        for line in lines
        if line["arm"] == arm
    }


@pytest.mark.training
def test_one_line_is_one_round(played):
    assert len(played) == 2 * len(loop.ARMS) * loop.N_ROUNDS
    for line in played:
        delegated = round(float(line["load"]) * SMALL.n_round)
        assert delegated <= int(line["readings"]) <= SMALL.n_round


@pytest.mark.training
def test_what_is_read_is_learnt_and_nothing_else(played):
    for arm in loop.ARMS:
        labels, readings = of(played, arm, "labels"), of(played, arm, "readings")
        for seed, number in labels:
            earlier = sum(readings[seed, before] for before in range(1, number))
            assert labels[seed, number] == SMALL.n_first + (0 if arm == "never" else earlier)


@pytest.mark.training
def test_arms_of_a_seed_begin_with_the_same_cases(played):
    arms = [arm for arm in loop.ARMS if arm != "aucoc"]  # which trains the first model otherwise
    first = [{k[0]: v for k, v in of(played, arm, "load").items() if k[1] == 1} for arm in arms]
    assert all(each == first[0] for each in first)


@pytest.mark.training
def test_playing_again_repeats_nothing(played):
    before = files.LOOP.read_bytes()
    assert list(loop.play_loops(["made-up"], [0, 1], into=files.LOOP)) == []
    assert files.LOOP.read_bytes() == before


def test_cases_set_apart_never_teach(cases, monkeypatch):
    """Neither these nor test cases are among those that a model is trained on."""
    taught, certified = [], []

    def train(known, *, arm, seed):
        taught.append({*map(tuple, known.features.tolist())})
        return torch.nn.Linear(5, 2)

    def predict(model, some):
        certified.append({*map(tuple, some.features.tolist())})
        return np.full((len(some), 2), 0.5)

    monkeypatch.setattr(loop, "train", train)
    monkeypatch.setattr(loop, "predict", predict)
    list(loop.play(cases, SMALL, "learns", 0))
    apart, test = certified[0], certified[2]
    assert (len(apart), len(test)) == (SMALL.n_certify, SMALL.n_test)
    assert not any(known & (apart | test) for known in taught)
    assert len(taught[-1]) == SMALL.n_first + (loop.N_ROUNDS - 1) * SMALL.n_round


@pytest.mark.training
def test_the_table_by_hand(played):
    lines = [line for line in make("loop").splitlines() if line.startswith("|")][2:]
    assert len(lines) == len(loop.ARMS)
    cells = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert cells[:2] == ["Made up, 80 %", loop_tables.ARMS["learns"]]
    loads = of(played, "learns", "load")
    assert cells[2] == f"{100 * fmean(loads[seed, 1] for seed in (0, 1)):.1f}"
    last = [100 * loads[seed, loop.N_ROUNDS] for seed in (0, 1)]
    reach = t.ppf(0.975, 1) * abs(last[0] - last[1]) / 2
    mean = fmean(last)
    assert cells[3] == f"{mean:.1f} ({mean - reach:.1f} to {mean + reach:.1f})"
    readings = of(played, "learns", "readings")
    assert cells[4] == f"{sum(readings.values()) / 2:,.0f}"
    accuracy = [
        line["test_decided_accuracy"]
        for line in played
        if line["arm"] == "learns" and line["test_decided_accuracy"]
    ]
    below = sum(float(each) < 0.8 for each in accuracy)
    assert cells[6].startswith(f"{below} of {2 * loop.N_ROUNDS}")


def test_every_arm_of_the_csv_is_complete():
    """Five seeds of eight rounds in every arm, and at least three data sets."""
    names = loop_tables.experiments()
    assert len(names) >= 3
    for name in names:
        arms = loop_tables.read_loop(name)
        assert list(arms) == list(loop.ARMS)
        for seeds in arms.values():
            assert sorted(seeds) == [0, 1, 2, 3, 4]
            assert all(len(rounds) == loop.N_ROUNDS for rounds in seeds.values())
