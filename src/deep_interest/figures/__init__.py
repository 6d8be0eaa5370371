"""Charts: what they show (`chart` and the modules that fill it), drawn by Plotly (`plotly`) or matplotlib (`png`)."""
