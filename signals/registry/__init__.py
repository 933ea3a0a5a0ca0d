"""The registry: signals found in files, directories and packages, by their text form."""
