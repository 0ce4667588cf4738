"""Project a log for its readers: items, requests, results, stream events, rows; nothing here writes."""
