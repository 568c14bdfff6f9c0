"""`swe.overlap`: the environments of the next batch start while this one is generated and trained on."""
