"""Einstein sums as matrix products, under the name by which plugins import them."""

from dlbricks_core.operators.einsum import Product, products_of, spelled_out

__all__ = ["Product", "products_of", "spelled_out"]
