"""Floor 6: the command line. One file per verb; what a verb needs is imported when it runs."""
