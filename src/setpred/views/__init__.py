"""How the examples of a task look: one file per view, as a figure in a report and as what the playground draws."""
