"""The contract: what a signal declares, what it is given, how it is driven over the layers."""
