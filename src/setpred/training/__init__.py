"""Training: tasks as data, one trainer for all, run folders that can be resumed exactly."""
