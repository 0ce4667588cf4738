"""What a log looks like to its readers: items, requests, results, stream events, rows. Nothing here writes."""
