"""Programs that make parts of the project: figures, pages of evidence, pictures."""
