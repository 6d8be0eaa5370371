"""How much data, history and width a model needs: fits with less of each."""
