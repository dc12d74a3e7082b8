"""Trainings side by side: run them (trainings.py), measure them (results.py), report (markdown.py, text.py)."""
