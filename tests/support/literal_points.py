"""Operating points and choices by trying every threshold in plain loops, and the code's own beside them."""

import dataclasses

import numpy as np

from exitbench.benchmarks.protocols.choice import Choices
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations
from exitbench.benchmarks.suites.questions import Questions
from tests.support.scored_cases import configuration

QUESTIONS = Questions(
    speed_ups=(1.5, 2.0), rates_speed_up=2.0, losses=(5.0,), resamples=12, folds=3, protocols=("cross-fit",)
)


IN_SAMPLE = dataclasses.replace(QUESTIONS, protocols=("in-sample",))


def choices_of(scored, questions, default=None):
    """The choices among all configurations under the questions' one protocol, and its parts."""
    numbers = range(len(scored.configurations))
    evaluation = evaluate_configurations(scored, list(numbers), questions)
    (protocol,) = questions.protocols
    results = [evaluation.results[protocol][number] for number in numbers]
    names = [scored.configurations[number].parameters for number in numbers]
    default = min(1, len(results) - 1) if default is None else default
    return Choices(results, names, default, questions), evaluation.parts[protocol]


def merged_of(scored, questions, default=None):
    choices, parts = choices_of(scored, questions, default)
    return MergedParts(choices, parts, scored.samples())


def grid(count):
    return [configuration(parameters=f"a={number}", changed=int(number != 1)) for number in range(count)]


def literal_exits(values, threshold):
    """The first internal layer whose score is at least the threshold, else the last."""
    depth = len(values) + 1
    return [next((m + 1 for m in range(depth - 1) if values[m, i] >= threshold), depth) for i in range(values.shape[1])]


def literal_point(values, right, speed_up):
    """Threshold, speed-up and accuracy of the point nearest to a speed-up, the faster of two, by trying them all."""
    depth, samples = right.shape
    levels = np.unique(np.maximum.accumulate(values, axis=0))
    best = None
    for threshold in [*((levels[1:] + levels[:-1]) / 2), -np.inf, np.inf]:
        exits = literal_exits(values, threshold)
        realised = depth * samples / sum(exits)
        accuracy = 100 * sum(right[e - 1, i] for i, e in enumerate(exits)) / samples
        key = (abs(realised - speed_up), -realised)
        if best is None or key < best[0]:
            best = (key, threshold, realised, accuracy)
    return best[1:]


def literal_near(values, right, speed_up):
    """The score at the nearest point if that is within 2%, else -1: what a choice for a speed-up looks at."""
    _, realised, accuracy = literal_point(values, right, speed_up)
    return accuracy if abs(realised - speed_up) <= 0.02 * speed_up + 1e-9 else -1


def literal_within_loss(values, right, loss):
    """Threshold and speed-up of the last point, from full depth on, before the score falls by more than the loss."""
    depth, samples = right.shape
    levels = np.unique(np.maximum.accumulate(values, axis=0))
    last = None
    for threshold in [np.inf, *((levels[1:] + levels[:-1]) / 2)[::-1], -np.inf]:
        exits = literal_exits(values, threshold)
        accuracy = 100 * sum(right[e - 1, i] for i, e in enumerate(exits)) / samples
        if accuracy < 100 * right[-1].mean() - loss - 1e-9:
            break
        last = (threshold, depth * samples / sum(exits))
    return last


def literal_choice(criteria, default):
    return default if criteria[default] == max(criteria) else int(np.argmax(criteria))
