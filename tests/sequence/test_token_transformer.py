"""The token transformer: single steps, and rows that forget their history."""

import torch
from torch import Tensor

from tokenworlds.core.trees import where_rows
from tokenworlds.nets.transformer import TransformerCarry, forget
from tokenworlds.sequence.token_transformer import TokenTransformer

ROWS, WIDTH = 3, 8
SOME = torch.tensor([False, True, False])


def make_model() -> TokenTransformer:
    torch.manual_seed(0)
    config = TokenTransformer.Config(width=WIDTH, layers=2, heads=2, positions=12, dropout=0.0)
    model = config.build().double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter.data, std=0.5)
    return model


def random_tokens(count: int) -> Tensor:
    source = torch.Generator().manual_seed(1)
    return torch.randn(ROWS, count, WIDTH, generator=source, dtype=torch.float64)


def after_three(model: TokenTransformer, reset: Tensor) -> TransformerCarry:
    return model.scan(random_tokens(3), reset, model.initial(ROWS, 9))[1]


def no_reset() -> Tensor:
    return torch.zeros(ROWS, 3, dtype=torch.bool)


def continued(model: TokenTransformer, carry: TransformerCarry, *, singly: bool) -> Tensor:
    """The outputs of four more tokens, by single steps or in pieces of one token."""
    found = []
    for token in random_tokens(7)[:, 3:].unbind(1):
        if singly:
            y, carry = model.step(token, carry)
        else:
            pieces, carry = model.extend(token[:, None], carry)
            y = pieces[:, 0]
        found.append(y)
    return torch.stack(found, 1)


@torch.no_grad()
def test_single_steps_are_the_steps_of_a_scan() -> None:
    model, x = make_model(), random_tokens(12)
    y, _ = model.scan(x, torch.zeros(ROWS, 12, dtype=torch.bool), model.initial(ROWS))
    carry = model.initial(ROWS)
    for time in range(12):
        step, carry = model.step(x[:, time], carry)
        assert carry.known is not None, "the slots were read again"
        torch.testing.assert_close(step, y[:, time])


@torch.no_grad()
def test_single_steps_skip_the_slots_that_a_reset_has_emptied() -> None:
    model, reset = make_model(), no_reset()
    reset[1, 2] = True
    extended = continued(model, after_three(model, reset), singly=False)
    found = continued(model, after_three(model, reset), singly=True)
    torch.testing.assert_close(found, extended)


@torch.no_grad()
def test_a_row_that_forgets_goes_on_as_a_blank_one() -> None:
    model, blank = make_model(), make_model().initial(ROWS, 9)
    chosen = where_rows(SOME, blank, after_three(model, no_reset()))
    expected = continued(model, chosen, singly=False)
    forgotten = forget(SOME, blank, after_three(model, no_reset()))
    assert forgotten.slots.next.tolist() == [3, 3, 3]
    torch.testing.assert_close(continued(model, forgotten, singly=True), expected)
    kept = continued(model, after_three(model, no_reset()), singly=True)
    assert not torch.allclose(kept[1], expected[1]), "the row had nothing to forget"


@torch.no_grad()
def test_an_older_carry_can_be_continued_again() -> None:
    model = make_model()
    carry = after_three(model, no_reset())
    first = continued(model, carry, singly=True)
    assert torch.equal(continued(model, carry, singly=True), first)


def test_forgetting_takes_a_carry_of_any_kind() -> None:
    blank, carry = torch.zeros(ROWS, 2), torch.ones(ROWS, 2)
    assert forget(SOME, blank, carry).tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
