"""Variants of a program, to find out what makes it fit: another batch, half precision, several IPUs.

A variant has the costs of the program that the user would write, not its values.
"""
