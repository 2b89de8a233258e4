"""What is computed: expressions, compiled loops, and the plugins that read, select, fill, write and draw."""
