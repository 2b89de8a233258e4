"""How the slots of pools were used over the last day."""
