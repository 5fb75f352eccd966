"""Sampling written down in the plainest way, in Python floats: what the fast code must agree with."""

from __future__ import annotations

import math


def adjusted(logits, params, prompt, output):
    """Logits after penalties and bias, as a list of floats."""
    values = [float(x) for x in logits]
    history = [*prompt, *output]
    recent = history if params.repeat_last_n < 0 else history[-params.repeat_last_n :]
    if params.repeat_last_n == 0:
        recent = []
    for token in set(recent):
        if values[token] > 0:
            values[token] /= params.repeat_penalty
        else:
            values[token] *= params.repeat_penalty
    for token in set(output):
        values[token] -= params.presence_penalty
        values[token] -= params.frequency_penalty * output.count(token)
    for token, bias in params.logit_bias.items():
        values[token] = -math.inf if bias <= -100 else values[token] + bias
    return values


def softmax(values, temperature=1.0):
    best = max(values)
    weights = [math.exp((v - best) / temperature) for v in values]
    total = math.fsum(weights)
    return [w / total for w in weights]


def survivors(values, params):
    """{token: probability} of the tokens that may be drawn."""
    left = {t: p for t, p in enumerate(softmax(values, params.temperature)) if p > 0}
    if params.top_k > 0:
        left = _renormalised(sorted(left.items(), key=_best_first)[: params.top_k])
    if params.typical_p < 1:
        entropy = -math.fsum(p * math.log(p) for p in left.values())
        nearest = sorted(left.items(), key=lambda tp: abs(-math.log(tp[1]) - entropy))
        left = _renormalised(_until(nearest, params.typical_p))
    if params.top_p < 1:
        left = _renormalised(_until(sorted(left.items(), key=_best_first), params.top_p))
    if params.min_p > 0:
        bound = params.min_p * max(left.values())
        left = _renormalised([(t, p) for t, p in left.items() if p >= bound])
    return left


def _best_first(item):
    return (-item[1], item[0])


def _until(items, mass):
    kept, total = [], 0.0
    for item in items:
        kept.append(item)
        total += item[1]
        if total >= mass:
            break
    return kept


def _renormalised(items):
    total = math.fsum(p for _, p in items)
    return {t: p / total for t, p in items}
