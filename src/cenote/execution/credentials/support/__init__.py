"""What credentials share: settings of those that people have in files, renewal, keys of issuers."""
