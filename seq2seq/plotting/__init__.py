"""Pictures of what a model does: as PNG, SVG, HTML or lines for a terminal. matplotlib is imported only to draw."""
