"""One file for each method of deriving a cache; a file here is found without being listed anywhere."""
