"""Multiple choice: SWAG."""
