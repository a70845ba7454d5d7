"""Decompositions and tridiagonal systems: what JAX leaves to LAPACK, of operations that IPUs have."""
