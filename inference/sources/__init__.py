"""Where model files come from: hubs, package indexes, URLs, local paths. Knows no database."""
