"""What only whole users need: adaptive rounds of noisy sums over users."""
