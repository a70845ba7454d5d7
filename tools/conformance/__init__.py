"""Runs JAX's own test suite on a platform, one file at a time, so that a crash or a hang costs one test."""
