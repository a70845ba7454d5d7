"""Ops in which replicas communicate: fewer of them, or with less to send."""
