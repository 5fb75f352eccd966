"""Daphne with limits: what keeps one client from taking the process away from the others.

Knows nothing about models, keys or the database; the application and the form of refusals are given.
"""
