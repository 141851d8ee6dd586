"""Einstein sums as matrix products."""

import pytest

from dlbricks_core.operators.ranges.weighted import Product, products_of


@pytest.mark.parametrize(
    ("equation", "shapes", "found"),
    [
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], [Product(2, 3, 5, 4)]),
        ("bij,bjk", [(2, 3, 4), (2, 4, 5)], [Product(1, 3, 5, 8)]),
        ("...ij,jk->...ik", [(2, 3, 4), (4, 5)], [Product(1, 6, 5, 4)]),
        ("ihj,j->i", [(3, 2, 4), (4,)], [Product(1, 3, 1, 4)]),
        ("j,ihj->i", [(4,), (3, 2, 4)], [Product(1, 1, 3, 4)]),
        ("bikc,bjkc->bijc", [(1, 6, 7, 8), (1, 6, 7, 8)], [Product(8, 6, 6, 7)]),
        ("bfkn,k->bfn", [(1, 3, 4, 5), (4,)], [Product(1, 15, 1, 4)]),
        ("i,j->ij", [(3,), (4,)], [Product(1, 3, 4, 1)]),
        (
            "ab,bc,cd->ad",
            [(2, 3), (3, 4), (4, 5)],
            [Product(1, 2, 4, 3), Product(1, 2, 5, 4)],
        ),
        ("ij->ji", [(2, 3)], []),
    ],
)
def test_operands_are_multiplied_from_left_to_right(equation, shapes, found):
    assert products_of(equation, shapes) == found


@pytest.mark.parametrize(("equation", "shapes"), [("ij,jk->ik", [(2, 3)]), ("ij->i", [(2,)])])
def test_an_equation_of_other_operands_is_refused(equation, shapes):
    with pytest.raises(ValueError):
        products_of(equation, shapes)
