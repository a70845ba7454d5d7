"""Stage "lower": from ops to Poplar calls, one file per family of ops; table.py lists them all."""
