"""What the command line, the card and the kind of an output say of its budget, in this order."""

from __future__ import annotations

import pytest

from fts.errors import CardError, UsageError
from fts.vocabulary.manifest import OutputEntry
from fts.vocabulary.tensor_spec import TensorSpec
from fts_calibration.metrics.budget import parse_budget, parse_budgets
from fts_calibration.metrics.output_meaning import OutputMeaning
from fts_calibration.metrics.user_metric import UserMetric
from fts_converters.card import Card, OutputCard
from fts_converters.decide_budgets import budgets_text, decide_budgets, refuse_misfits


def output(name: str, kind: str = "tensor", shape: tuple[int | str, ...] = (1, 10)) -> OutputEntry:
    return OutputEntry(spec=TensorSpec(name=name, dtype="float32", shape=shape), kind=kind)


def on_card(text: str = "", **meaning: object) -> OutputCard:
    budget = parse_budget(text) if text else None
    return OutputCard(budget_text=text, budget=budget, meaning=OutputMeaning(**meaning))


POINTS = Card(outputs={"points": on_card("nme<=0.05", eyes=((0,), (1,)))})
OUTPUTS = [output("y", "image", (1, 3, 8, 8)), output("points")]


def decided(card: Card, *texts: str) -> dict[str, str]:
    return {n: str(b) for n, b in decide_budgets(parse_budgets(texts), card, OUTPUTS).items()}


def test_without_a_word_the_kind_decides():
    assert decided(Card()) == {"y": "psnr>=30", "points": "sqnr>=20"}


def test_the_card_goes_before_the_kind_and_flags_before_the_card():
    assert decided(POINTS) == {"y": "psnr>=30", "points": "nme<=0.05"}
    assert decided(POINTS, "sqnr>=25") == {"y": "sqnr>=25", "points": "sqnr>=25"}
    assert decided(POINTS, "y:ssim>=0.9") == {"y": "ssim>=0.9", "points": "nme<=0.05"}
    assert decided(POINTS, "y:ssim>=0.9,sqnr>=25") == {"y": "ssim>=0.9", "points": "sqnr>=25"}


def test_an_output_may_be_left_out():
    assert decided(POINTS, "y:none") == {"points": "nme<=0.05"}
    assert decided(Card(outputs={"y": on_card("none")})) == {"points": "sqnr>=20"}


def test_a_metric_without_a_budget_has_its_usual_threshold():
    assert decided(Card(outputs={"points": on_card(metric="nme")}))["points"] == "nme<=0.02"


def test_beside_a_users_metric_only_what_is_named_or_on_the_card_is_held():
    user = UserMetric(reference="m:f", sha256="0")

    def of(card: Card, *texts: str) -> dict[str, str]:
        return {n: str(b) for n, b in decide_budgets(parse_budgets(texts, user), card, OUTPUTS).items()}

    assert of(Card(), "metric>=0.9") == {"all outputs": "metric>=0.9"}
    assert of(POINTS, "metric>=0.9") == {"all outputs": "metric>=0.9", "points": "nme<=0.05"}
    assert of(Card(), "metric>=0.9,y:psnr>=40") == {"all outputs": "metric>=0.9", "y": "psnr>=40"}
    assert of(Card(), "metric>=0.9,sqnr>=30") == {"all outputs": "metric>=0.9", "y": "sqnr>=30", "points": "sqnr>=30"}


def test_with_budget_none_the_metrics_shown_stay_those_of_the_card():
    assert decided(POINTS, "none") == {"y": "psnr>=30", "points": "nme<=0.05"}


def test_the_meaning_of_the_card_belongs_to_budgets_of_flags_too():
    budgets = decide_budgets(parse_budgets(["points:nme<=0.1"]), POINTS, OUTPUTS)
    assert budgets["points"].meaning.eyes == ((0,), (1,))


def test_the_text_is_what_was_typed_or_what_stands_in_its_place():
    asked = parse_budgets(["y:ssim>=0.9", "sqnr>=25"])
    assert budgets_text(asked, decide_budgets(asked, Card(), OUTPUTS)) == "y:ssim>=0.9,sqnr>=25"
    nothing = parse_budgets([])
    assert budgets_text(nothing, decide_budgets(nothing, POINTS, OUTPUTS)) == "points:nme<=0.05, psnr>=30 (default)"


@pytest.mark.parametrize(
    ("card", "texts", "error", "says"),
    [
        (Card(), ["z:psnr>=3"], UsageError, "no output 'z'; its outputs: y, points"),
        (Card(), ["point:psnr>=3"], UsageError, "did you mean 'points'?"),
        (Card(), ["points:iou>=0.9"], UsageError, "--budget: iou does not fit output 'points' of shape 1x10"),
        (Card(outputs={"points": on_card("iou>=0.9")}), [], CardError, "card, iou does not fit output 'points'"),
        (Card(), ["points:drop<=1%"], UsageError, "there is no metric on the card"),
        (Card(), ["y:none,points:none"], UsageError, "no output is left to judge"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_measured(card, texts, error, says):
    specs = [o.spec for o in OUTPUTS]
    with pytest.raises(error) as caught:
        refuse_misfits(parse_budgets(texts), card, specs)
    assert says in str(caught.value)


def test_sizes_that_are_not_known_are_not_held_against_a_metric():
    refuse_misfits(parse_budgets(["y:nme<=0.1"]), Card(), [TensorSpec(name="y", dtype="float32", shape=("n", 10))])


def test_what_fits_is_let_through():
    refuse_misfits(parse_budgets(["points:top1>=1,iou>=0.9"]), Card(), [o.spec for o in OUTPUTS])
    refuse_misfits(parse_budgets(["none"]), Card(outputs={"y": on_card("none"), "points": on_card("none")}), [])
