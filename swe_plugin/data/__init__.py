"""Where tasks come from: registered datasets, files of tasks, rows of published datasets."""
