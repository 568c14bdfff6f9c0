"""One real episode without a trainer: `runner` runs it, `watch` sees it happen, `view` shows it."""
