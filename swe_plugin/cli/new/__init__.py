"""Working packages to start from; see `writer`."""
