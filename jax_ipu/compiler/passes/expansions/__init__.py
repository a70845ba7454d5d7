"""Ops that become others, so that later passes and the lowering know fewer."""
