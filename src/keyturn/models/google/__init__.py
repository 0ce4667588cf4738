"""Gemini models, by generateContent."""
