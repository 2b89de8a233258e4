"""The doors of a service: who may ask what, over a Unix socket and over HTTPS, and how it is answered."""
