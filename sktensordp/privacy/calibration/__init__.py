"""Epsilon in, noise out: sensitivities of declared domains, and the noise they need."""
