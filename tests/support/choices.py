"""Choices of several kinds: smaller ones of the shapes that `make_choices` lists."""

# Numbers of users, items and choices, and the exponents of their activity.
KINDS_OF_CHOICES = {
    "films": ((400, 3000, 40_000), {"user_exponent": 0.75, "item_exponent": 1.35}),
    "pages": ((6000, 200, 18_000), {"user_exponent": 0.6, "item_exponent": 2.0}),
    "games": ((3000, 800, 30_000), {"user_exponent": 1.0, "item_exponent": 1.5}),
    "artists": ((1000, 3000, 44_000), {"user_exponent": 0.0, "item_exponent": 1.0}),
    "groceries": ((6000, 1500, 60_000), {"user_exponent": 0.5, "item_exponent": 0.95}),
}
