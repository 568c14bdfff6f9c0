"""A dataset instead of one episode: `job` runs it, `progress` and `table` show it."""
