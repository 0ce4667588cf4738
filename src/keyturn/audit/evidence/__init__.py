"""What somebody without the journal's keys can verify: public chains, signed checkpoints, exports."""
