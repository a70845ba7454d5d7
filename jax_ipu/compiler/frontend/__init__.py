"""From the bytes of a StableHLO program to the IR: parse, partition, legalise, import. Knows MLIR, not JAX."""
