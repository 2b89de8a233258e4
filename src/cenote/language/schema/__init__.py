"""Every key of the language: pydantic models, and the JSON Schema made of them."""
