"""What the documentation site needs beyond mkdocs and its plugins."""
