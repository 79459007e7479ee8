"""The data of the tasks: one module for each file format, and one for each generated data set."""
