"""Find, read and judge the proxies and tokens that people have; what secret they hold is never shown."""
