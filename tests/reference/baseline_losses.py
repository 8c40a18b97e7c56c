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


def self_adaptive(logits, soft_target):
    """Huang et al. 2020, the last line of algorithm 1."""
    total = weights = 0.0
    for row, soft in zip(logits, soft_target, strict=True):
        proba = softmax(row)
        cost = -sum(t * math.log(p) for t, p in zip(soft, proba, strict=True) if t > 0)
        total += max(soft) * cost
        weights += max(soft)
    return total / weights


def self_adaptive_training(batches, momentum, start):
    """Huang et al. 2020, algorithm 1: the loss of each batch of (logits, labels, case numbers).

    An epoch is counted case by case: it is how often the case has been seen.
    """
    soft, seen, losses = {}, {}, []
    for logits, target, cases in batches:
        for row, label, case in zip(logits, target, cases, strict=True):
            if case not in soft:
                soft[case] = [float(k == label) for k in range(len(row))]
                seen[case] = 0
            if seen[case] >= start:
                soft[case] = [
                    momentum * t + (1 - momentum) * p
                    for t, p in zip(soft[case], softmax(row), strict=True)
                ]
            seen[case] += 1
        losses.append(self_adaptive(logits, [soft[case] for case in cases]))
    return losses


def correctness_ranking(logits, correctness):
    """Moon et al. 2020, equation 2, over neighbours in a ring; None where nothing is known."""
    confidence = [max(softmax(row)) for row in logits]
    total = 0.0
    for i in range(len(logits)):
        j = (i + 1) % len(logits)
        if correctness[i] is None or correctness[j] is None:
            continue
        sign = (correctness[i] > correctness[j]) - (correctness[i] < correctness[j])
        margin = abs(correctness[i] - correctness[j])
        total += max(0.0, -sign * (confidence[i] - confidence[j]) + margin)
    return total / len(logits)


def correctness_ranking_training(batches):
    """Moon et al. 2020: the loss of each batch, by how often its cases were right before it."""
    seen, right, losses = {}, {}, []
    for logits, target, cases in batches:
        known = [right[case] / seen[case] if case in seen else None for case in cases]
        losses.append(correctness_ranking(logits, known))
        for row, label, case in zip(logits, target, cases, strict=True):
            seen[case] = seen.get(case, 0) + 1
            right[case] = right.get(case, 0) + (row.index(max(row)) == label)
    return losses
