"""From rows of a dataset to the files that training reads."""
