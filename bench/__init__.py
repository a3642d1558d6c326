"""Benchmarks: the service's capacity as ratios measured side by side in one run (`python -m bench`)."""
