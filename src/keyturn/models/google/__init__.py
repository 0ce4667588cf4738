"""Gemini, by generateContent."""
