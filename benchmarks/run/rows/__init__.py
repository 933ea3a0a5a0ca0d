"""The rows of the result files, by what they tell: rankings, operating points, exit rates, certainties, figures."""
