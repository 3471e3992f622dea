"""Many runs side by side: what their folders say, statistics, charts, tables and one page.

Nothing here imports torch or writes into a run folder.
"""
