"""The commands, one to a file: what a user may say, and whom it is passed on to.

Whatever needs torch is imported when a command runs, so that help is there at once.
"""
