"""The picture of a plan: SVG, Mermaid or DOT."""
