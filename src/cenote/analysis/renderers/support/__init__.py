"""What several renderers share: how pictures are drawn."""
