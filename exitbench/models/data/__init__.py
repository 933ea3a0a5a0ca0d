"""Texts and token batches: labelled ones to train and collect, unlabelled ones to answer."""
