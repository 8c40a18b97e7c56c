"""The baseline losses as their papers write them: plain loops over plain numbers, float64."""

import math


def softmax(row):
    top = max(row)
    powers = [math.exp(value - top) for value in row]
    return [power / sum(powers) for power in powers]


def top_labels(logits, target):
    """(confidence, right) of each case; among equals the first class wins."""
    cases = []
    for row, label in zip(logits, target, strict=True):
        proba = softmax(row)
        cases.append((max(proba), proba.index(max(proba)) == label))
    return cases


def focal(logits, target, gamma=3.0):
    """Lin et al. 2017, one value per case."""
    values = []
    for row, label in zip(logits, target, strict=True):
        p = softmax(row)[label]
        values.append(-((1 - p) ** gamma) * math.log(p))
    return values


def generalised_cross_entropy(logits, target, q=0.1):
    """Zhang and Sabuncu 2018, one value per case."""
    values = []
    for row, label in zip(logits, target, strict=True):
        values.append((1 - softmax(row)[label] ** q) / q)
    return values


def adaptive_focal(logits, target, gamma_below=5.0, gamma_above=3.0, switch=0.2):
    """Mukhoti et al. 2020, the schedule FLSD-53, one value per case."""
    values = []
    for row, label in zip(logits, target, strict=True):
        p = softmax(row)[label]
        gamma = gamma_below if p < switch else gamma_above
        values.append(-((1 - p) ** gamma) * math.log(p))
    return values


def mmce_weighted(logits, target):
    """Kumar et al. 2018: three double sums; a sum over an empty group is zero."""
    cases = top_labels(logits, target)
    right = [confidence for confidence, is_right in cases if is_right]
    wrong = [confidence for confidence, is_right in cases if not is_right]

    def kernel(a, b):
        return math.exp(-abs(a - b) / 0.4)

    total = 0.0
    for a in wrong:
        for b in wrong:
            total += a * b * kernel(a, b) / len(wrong) ** 2
    for a in right:
        for b in right:
            total += (1 - a) * (1 - b) * kernel(a, b) / len(right) ** 2
    for a in right:
        for b in wrong:
            total -= 2 * (1 - a) * b * kernel(a, b) / (len(right) * len(wrong))
    return math.sqrt(max(total, 0.0))


def soft_ece(logits, target, temperature=0.01, n_bins=15, norm=2.0):
    """Karandikar et al. 2021, equation 11."""
    cases = top_labels(logits, target)
    centres = [(2 * j + 1) / (2 * n_bins) for j in range(n_bins)]
    members = [
        softmax([-((r - centre) ** 2) / temperature for centre in centres]) for r, _ in cases
    ]
    total = 0.0
    for j in range(n_bins):
        size = sum(row[j] for row in members)
        if size == 0:
            continue
        confidence = sum(row[j] * r for row, (r, _) in zip(members, cases, strict=True)) / size
        accuracy = (
            sum(row[j] * right for row, (_, right) in zip(members, cases, strict=True)) / size
        )
        total += size / len(cases) * abs(accuracy - confidence) ** norm
    return total ** (1 / norm)


def soft_avuc(logits, target, temperature=1.0, threshold=0.4):
    """Karandikar et al. 2021, equations 14 and 15; the denominator's floor is in their code."""
    ac = au = ic = iu = 0.0
    for row, (_, right) in zip(logits, top_labels(logits, target), strict=True):
        entropy = -sum(p * math.log(p) for p in softmax(row) if p > 0)
        h = entropy / math.log(len(row))
        odds = h * (1 - threshold) / ((1 - h) * threshold)
        t = 1 / (1 + math.exp(-math.log(odds) / temperature))
        if right:
            ac += (1 - t) * (1 - math.tanh(entropy))
            au += t * math.tanh(entropy)
        else:
            ic += (1 - t) * (1 - math.tanh(entropy))
            iu += t * math.tanh(entropy)
    return math.log(1 + (au + ic) / max(ac + iu, 1e-5))


def confidence_penalty(logits, target):
    """Pereyra et al. 2017: minus the mean entropy."""
    entropies = [-sum(p * math.log(p) for p in softmax(row) if p > 0) for row in logits]
    return -math.fsum(entropies) / len(target)
