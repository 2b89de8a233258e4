"""Show runs to people: the page, notebooks, own reports, comparisons."""
