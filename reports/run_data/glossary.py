"""What each measure means, in a sentence or two: for hovering, for the glossary, for notes below tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A measure's printed name and its definition."""

    title: str
    definition: str


GLOSSARY = {
    "accuracy": Term(
        "Accuracy", "Share of samples whose answer is right, in percent, each answered by the layer it exits at."
    ),
    "f1": Term("F1", "F1 of class 1 in percent, once, over the merged answers of all exits."),
    "mean_accuracy_f1": Term(
        "Average score",
        "Mean over tasks of each task's own score: accuracy for some, F1 for others; blank if a task has no value.",
    ),
    "speed_up": Term(
        "Speed-up",
        "Cost of the last layer divided by the mean cost paid. A cache without costs counts layers: their number "
        "divided by the mean exit layer, the last layer included. Not a time unless the costs are times.",
    ),
    "max_speed_up": Term(
        "Largest speed-up within a loss",
        "Coming from full depth, the last operating point before the task score first falls more than the loss below "
        "that of the final layer.",
    ),
    "certified_speed_up": Term(
        "Certified speed-up",
        "Speed-up of the fastest threshold of which half of the rows show, with 90% confidence, that at most so many "
        "points of the answers are wrong where the last layer's is right; the other half chose. A promise, not an "
        "estimate.",
    ),
    "dis": Term(
        "DIS",
        "Difficulty Inversion Score (DIS): over all pairs of a wrong and a right prediction of one layer, the share in "
        "which the signal is more certain of the right one, ties one half, in percent; 50 is chance.",
    ),
    "tied_share": Term("Tied pairs", "Share of (wrong, right) pairs with equal scores, in percent."),
    "premature_rate": Term(
        "Premature exiting rate", "Exits on a wrong early prediction over decisions on a wrong early prediction."
    ),
    "delayed_rate": Term(
        "Delayed exiting rate", "Continuations on a right early prediction over decisions on a right early prediction."
    ),
    "aurc": Term(
        "AURC", "Mean error rate among the most certain samples over all coverages, in percent; lower is better."
    ),
    "excess_aurc": Term("Excess AURC", "AURC less the least value that any ranking of the same predictions can reach."),
    "exit_share": Term(
        "Share of exits", "Exits over all decisions of every sample at every internal layer, in percent."
    ),
    "ece": Term(
        "ECE",
        "Expected calibration error of a score that is a probability of being right: over 15 bins of equal width, the "
        "distance between the mean probability and the share of right answers, weighted by samples, in points.",
    ),
    "brier": Term(
        "Brier score",
        "Mean squared distance between the probability of being right and what happened (1 right, 0 wrong), times 100.",
    ),
    "area": Term(
        "Area",
        "Area under task score against relative cost (mean cost paid over the last layer's), over the length of the "
        "suite's range of costs: the mean score in that range; comparable within a task only.",
    ),
    "difference": Term(
        "Paired difference",
        "Row less column on the same samples, in points, with a 95% interval; p-values are adjusted by Holm's method "
        "over all pairs of the table.",
    ),
    "joint_difference": Term(
        "Paired difference between runs",
        "The row's score less that of the signal that the heading names, with a subject the other way round, on the "
        "same rows of the shared caches, in points, with a 95% interval; p-values are adjusted by Holm's method over "
        "all pairs of the column.",
    ),
    "gain": Term(
        "Gain by learning",
        "The signal less the largest softmax probability on the same samples, in points, with a 95% interval; p-values "
        "are adjusted by Holm's method over all pairs of signals.",
    ),
    "fitted_parameters": Term("Fitted parameters", "How many numbers the fit gave the signal, over all layers."),
    "fitted_rows": Term("Fitted rows", "How many calibration samples the signal was fitted on."),
    "wins": Term(
        "Wins",
        "Number of comparisons in which the row is better : worse than the column, with an adjusted p of at most 0.05.",
    ),
    "cost": Term("Cost", "Floating point operations or parameters by the convention the column names."),
    "published_distance": Term(
        "Distance from the published DIS",
        "Mean over layers of the absolute difference between the DIS measured here and the published one, in points.",
    ),
    "published": Term("Published", "A figure copied from the paper: other hardware, backbone and evaluation server."),
}
"""Measures and the other numbers that tables show, by the ``measure`` of their columns."""

DECISIONS = {
    "all": "every decision of every sample at every internal layer, whether or not the sample is still there",
    "reached": "only decisions that a sample lives to see, up to the layer it exits at",
}

PROTOCOLS = {
    "in-sample": "Parameters and thresholds are chosen on the samples that are scored, as in the published analyses.",
    "cross-fit": "Every sample is scored with what was chosen on the other folds; each fold has its own threshold.",
    "held-out": "Everything is chosen on another cache of the same model: what a service would get.",
}

EQUAL_SHARES = (
    "at each internal layer the most certain samples exit, as many as the layer gets right: the same share for every "
    "signal, without a threshold; wrong exits and right continuations are then equally many"
)


RATES = {"premature_rate": "premature", "delayed_rate": "delayed"}

DIS_NOTE = GLOSSARY["dis"].definition
"""What stands below every table with a DIS."""
