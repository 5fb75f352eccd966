"""Measurements against peers and ceilings. They print and record; they never assert."""
