"""Elementwise ops and reductions: simpler, fewer, on fewer elements, and fused."""
