"""Compiled programs on disk: what identifies them, how they are stored, and when they are found again."""
