"""What several sources share."""
