"""One file per framework: each recognises its models and converts them to `Model`."""
