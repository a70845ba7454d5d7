"""Builds PopLibs on the model's public headers and library, and runs its tests: the parts of poplibs_conformance.py."""
