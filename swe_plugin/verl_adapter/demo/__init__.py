"""Parts of the demo that need torch: tokenizer, model, warm start, baselines, dataset rows. Import modules directly."""
