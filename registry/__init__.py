"""The control plane: what is wanted, what happened. Knows nothing about engines or HTTP streaming."""
