"""Who may use a service: tokens, the certificate it shows, the accounts of this machine."""
