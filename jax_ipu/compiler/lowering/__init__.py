"""From op to Poplar calls, one file for each family of ops; table.py puts them together."""
