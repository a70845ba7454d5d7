"""Models of the benchmarks as plain functions over pytrees of parameters."""
