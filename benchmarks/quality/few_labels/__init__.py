"""Few labels per class: systems and their rivals on the same draws."""
