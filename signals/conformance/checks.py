"""The checks that every signal passes: plain functions, each one property.

A check takes a signal class (then it looks at the default and every value of each parameter's grid and choices) or
one instance, and raises :class:`CheckError`.
"""

import json
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from exitbench.exit_rule import exits
from exitbench.signals.conformance.harness import (
    Check,
    CheckError,
    at_every_point,
    fitted_anew,
    largest_change,
    ready,
    require,
    same,
    scores_of,
)
from exitbench.signals.conformance.synthetic_layers import SyntheticLayers, synthetic_layers, without_inputs
from exitbench.signals.contract.layer import INPUTS, OUTPUT, output_names
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.contract.stepping import take_state
from exitbench.signals.registry import text_form

SEED = 20250
CLASS_COUNTS = (2, 3, 10)
MORE_CLASSES_THAN_FEATURES = 30
"""More than the 24 features of :func:`synthetic_layers`: its heads have full rank."""
FEATURE_BOUND = 8.0
"""How far 16-bit features may move a score: this many units of the format's ``eps``, times the largest score."""
SHIFT_BOUND = 1e-4
"""How far a shift of 3 may move a score that claims not to see it (logits are float32), times the largest score."""
OTHER_OUTPUT = "undeclared"
"""An extra output that is there and that no signal declares."""
LEAST_AUROC = 0.55
"""What "more certain, more often right" asks for: the mean over layers of the AUROC of certainty, on easy data."""


def layers_for(signal: ExitSignal, *, seed: int = SEED, **options: Any) -> SyntheticLayers:
    """Synthetic layers with the extra outputs that a signal declares, and with one that it does not."""
    outputs = [*output_names(signal.inputs), OTHER_OUTPUT]
    return synthetic_layers(seed=seed, outputs=outputs, **options)


@at_every_point
def check_shape_and_dtype(signal: ExitSignal) -> None:
    """One float64 per sample at every internal layer."""
    data = layers_for(signal)
    for layer, score in zip(data.internal, scores_of(ready(signal, data), data.internal), strict=True):
        require(isinstance(score, Tensor), f"layer {layer.index}: expected a tensor, found {type(score).__name__}")
        expected, returned = (torch.float64, (layer.samples,)), (score.dtype, tuple(score.shape))
        require(returned == expected, f"layer {layer.index}: expected dtype and shape {expected}, found {returned}")


@at_every_point
def check_finite_where_defined(signal: ExitSignal) -> None:
    """A finite score from the first scored layer on, and NaN before."""
    data = layers_for(signal)
    for layer, score in zip(data.internal, scores_of(ready(signal, data), data.internal), strict=True):
        if layer.index < signal.first_scored_layer:
            require(bool(score.isnan().all()), f"layer {layer.index} is before the first scored layer and has a score")
        else:
            require(bool(score.isfinite().all()), f"layer {layer.index}: a score is not finite")


@at_every_point
def check_deterministic(signal: ExitSignal) -> None:
    """The same input gives the same scores to the last bit, whatever the global random state."""
    data = layers_for(signal)
    fitted = fitted_anew(signal, data)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first = scores_of(fitted, data.internal)
        torch.manual_seed(2)
        second = scores_of(fitted_anew(signal, data), data.internal)
    require(same(second, first, exactly=True), "a second run gives other scores")


@at_every_point
def check_permutation_permutes_scores(signal: ExitSignal) -> None:
    """Samples in another order get the same scores in that order."""
    data = layers_for(signal)
    fitted = ready(signal, data)
    order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(SEED))
    permuted = scores_of(fitted, [layer.take(order) for layer in data.internal])
    expected = [score[order] for score in scores_of(fitted, data.internal)]
    require(same(permuted, expected), "samples in another order get other scores")


@at_every_point
def check_alone_as_in_company(signal: ExitSignal) -> None:
    """A sample scores the same in a batch of 1, of 7 and of all."""
    data = layers_for(signal)
    fitted = ready(signal, data)
    expected = scores_of(fitted, data.internal)
    for size in (1, 7):
        for start in range(0, len(data.labels) - size, 4):
            rows = torch.arange(start, start + size)
            few = scores_of(fitted, [layer.take(rows) for layer in data.internal])
            require(same(few, [score[rows] for score in expected]), f"another score in a batch of {size} than of all")


@at_every_point
def check_cannot_see_later_layers(signal: ExitSignal) -> None:
    """Other later layers, seen in an earlier run or still to come, change no score before them."""
    data, other = layers_for(signal), layers_for(signal, seed=SEED + 1)
    fitted = ready(signal, data)
    expected = scores_of(fitted, data.internal)
    for seen in range(1, len(data.internal)):
        mixed = scores_of(fitted, (*data.internal[:seen], *other.internal[seen:]))
        require(same(mixed[:seen], expected[:seen]), f"scores up to layer {seen} change with the layers after it")


@at_every_point
def check_dropping_samples_changes_nothing(signal: ExitSignal) -> None:
    """When samples exit midway and the state is sliced, the others score as before."""
    data = layers_for(signal)
    fitted = ready(signal, data)
    expected = scores_of(fitted, data.internal)
    rows, state = torch.arange(len(data.labels)), None
    for layer, all_scores in zip(data.internal, expected, strict=True):
        score, state = fitted.step(layer.take(rows), state)
        require(same([score], [all_scores[rows]]), f"layer {layer.index}: other scores after some samples exited")
        stays = torch.arange(len(rows)) % 4 != layer.index % 4
        rows, state = rows[stays], take_state(state, stays)


@at_every_point
def check_undeclared_inputs_not_read(signal: ExitSignal) -> None:
    """Taking away, or spoiling, every input that is not declared changes no score."""
    data = layers_for(signal)
    fitted = ready(signal, data)
    undeclared = {*INPUTS, OUTPUT + OTHER_OUTPUT} - set(signal.inputs)
    try:
        blind = scores_of(fitted, [without_inputs(layer, undeclared) for layer in data.internal])
    except Exception as error:
        raise CheckError(f"fails without {', '.join(sorted(undeclared))}: {type(error).__name__}: {error}") from error
    expected = scores_of(fitted, data.internal)
    require(same(blind, expected, exactly=True), f"scores change without {', '.join(sorted(undeclared))}")


@at_every_point
def check_inputs_not_modified(signal: ExitSignal) -> None:
    """Scoring and fitting change no tensor that they are given."""
    data, untouched = layers_for(signal), layers_for(signal)
    scores_of(fitted_anew(signal, data), data.internal)
    require(torch.equal(data.labels, untouched.labels), "the labels were changed")
    for layer, before in zip(data.layers, untouched.layers, strict=True):
        for name in ("ids", "logits", "features", "offset_norm"):
            require(torch.equal(getattr(layer, name), getattr(before, name)), f"layer {layer.index}: {name} changed")
        for name, output in layer.outputs.items():
            require(torch.equal(output, before.outputs[name]), f"layer {layer.index}: output {name} changed")
        for name in ("weight", "bias", "gram_inverse", "offset"):
            now, then = getattr(layer.head, name), getattr(before.head, name)
            require(torch.equal(now, then), f"layer {layer.index}: the head's {name} changed")


@at_every_point
def check_direction_agrees_with_accuracy(signal: ExitSignal) -> None:
    """On easy data, the samples that would exit first are more often right."""
    data = layers_for(signal, samples=400)
    fitted = ready(signal, data)
    aurocs = []
    for layer, score in zip(data.internal, scores_of(fitted, data.internal), strict=True):
        right = layer.prediction == data.labels
        if layer.index >= signal.first_scored_layer:
            certainty = score if ">" in signal.exits_when else -score
            lead = certainty[right][:, None] - certainty[~right][None, :]
            aurocs.append(float((lead > 0).double().mean() + (lead == 0).double().mean() / 2))
    mean = sum(aurocs) / len(aurocs)
    hint = "; is exits_when the wrong way round?" if mean < 1.0 - LEAST_AUROC else ""
    require(mean > LEAST_AUROC, f"AUROC of certainty {mean:.2f} on easy data, expected above {LEAST_AUROC}{hint}")


@at_every_point
def check_shift_invariance_where_claimed(signal: ExitSignal) -> None:
    """A signal that claims it does not see a constant added to W's rows and to b (and so to the logits) does not."""
    if signal.shift_invariant:
        data, shifted = layers_for(signal), layers_for(signal, shift=3.0)
        fitted = ready(signal, data)
        change = largest_change(signal, scores_of(fitted, shifted.internal), scores_of(fitted, data.internal))
        require(change <= SHIFT_BOUND, f"claims shift invariance, but a shift of 3 moves a score by {change:.2g}")


@at_every_point
def check_feature_precision(signal: ExitSignal) -> None:
    """Features stored in float16 or bfloat16 give the scores of float32 within :data:`FEATURE_BOUND`."""
    data = layers_for(signal)
    fitted = ready(signal, data)
    expected = scores_of(fitted, data.internal)
    for dtype in (torch.float16, torch.bfloat16):
        rounded = scores_of(fitted, layers_for(signal, feature_dtype=dtype).internal)
        change, bound = largest_change(signal, rounded, expected), FEATURE_BOUND * torch.finfo(dtype).eps
        require(change <= bound, f"{dtype} features move a score by {change:.2g}, expected at most {bound:.2g}")


@at_every_point
def check_class_counts(signal: ExitSignal) -> None:
    """Two, three and ten classes all work; and more classes than features, unless the signal says why they cannot."""
    for classes in (*CLASS_COUNTS, MORE_CLASSES_THAN_FEATURES):
        data = layers_for(signal, classes=classes)
        for layer, score in zip(data.internal, scores_of(ready(signal, data), data.internal), strict=True):
            undefined = layer.head is not None and signal.unscored_head(layer.head)
            defined = layer.index >= signal.first_scored_layer and not undefined
            holds = score.shape == (layer.samples,) and (not defined or bool(score.isfinite().all()))
            require(holds, f"{classes} classes, layer {layer.index}: expected a finite score for each sample")


@at_every_point
def check_extreme_logits(signal: ExitSignal) -> None:
    """Logits of 1e4 and -1e4, in any mix, and logits that are all equal give no NaN, and nothing infinite."""
    for classes in CLASS_COUNTS:
        data = layers_for(signal, samples=6, classes=classes)
        fitted = ready(signal, data)
        rows = torch.zeros(6, classes)
        rows[0], rows[1], rows[2] = 1e4, -1e4, 0.0
        rows[3], rows[3, 0] = -1e4, 1e4
        rows[4], rows[4, -1] = 1e4, -1e4
        rows[5, 0] = 1e4
        # Rolling the rows makes samples jump between the extremes from layer to layer.
        layers = [replace(layer, logits=rows.roll(layer.index, 0)) for layer in data.internal]
        for score in scores_of(fitted, layers)[signal.first_scored_layer - 1 :]:
            require(bool(score.isfinite().all()), f"{classes} classes: extreme logits give a NaN or an infinity")


@at_every_point
def check_text_round_trip(signal: ExitSignal) -> None:
    """The text form, short or with every parameter, makes the same signal again."""
    whole = f"{signal.name}[{signal.parameters_text}]" if signal.parameters_text else signal.name
    for written in (signal.text, whole):
        name, values = text_form.parse(written)
        signals = text_form.expand(type(signal), values)
        require(name == signal.name and len(signals) == 1, f"{written} does not stand for one {signal.name}")
        returned = signals[0].parameters_text
        require(returned == signal.parameters_text, f"{written} comes back as {returned or 'nothing'}")


@at_every_point
def check_json_round_trip(signal: ExitSignal) -> None:
    """What was fitted survives JSON: the signal that comes back gives the same scores to the last bit."""
    data = layers_for(signal)
    fitted = ready(signal, data)
    require(not fitted.needs_fit, "still needs to be fitted after fit")
    restored = type(signal).from_json(json.loads(json.dumps(fitted.to_json())))
    require(not restored.needs_fit, "has forgotten what it learned")
    require(
        same(scores_of(restored, data.internal), scores_of(fitted, data.internal), exactly=True),
        "scores change after a round trip through JSON",
    )


@at_every_point
def check_no_exit_before_first_exit_layer(signal: ExitSignal) -> None:
    """However generous the threshold, samples exit from the first exit layer on, and there they have a score."""
    first, scored = signal.first_exit_layer, signal.first_scored_layer
    require(type(first) is int and first >= 1, f"first_exit_layer must be a whole number from 1 on, found {first!r}")
    require(scored <= first, f"may exit at layer {first}, before its first scored layer, {scored}")
    data = layers_for(signal, depth=max(8, first + 2))
    scores = torch.stack(scores_of(ready(signal, data), data.internal))
    generous = torch.inf if signal.exits_when.startswith("<") else -torch.inf
    exited_at = exits(scores.numpy(), signal.exits_when, first, generous)
    require(bool((exited_at == first).all()), f"at a threshold of {generous} some samples do not exit at layer {first}")


CHECKS: tuple[Check, ...] = tuple(value for name, value in list(globals().items()) if name.startswith("check_"))
"""Every check of this module, in the order written."""
