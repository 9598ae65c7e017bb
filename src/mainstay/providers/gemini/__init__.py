"""Google Gemini API."""
