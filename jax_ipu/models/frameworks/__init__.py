"""One file per framework: each recognises its models and gives them as `Model`."""
