"""Tasks are tried before anybody trains on them: the reference fix must be resolved, the untouched tree must not."""
