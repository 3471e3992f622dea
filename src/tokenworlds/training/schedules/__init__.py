"""Schedules: the order in which a run collects steps and updates its learners."""
