"""Where memory comes first: large values are computed in parts, in a loop."""
