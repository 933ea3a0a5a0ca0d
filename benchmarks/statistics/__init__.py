"""How sure a number is: resamples, influence functions, intervals, many comparisons."""
