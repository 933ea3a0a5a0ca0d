"""Result files in, things people read out.

In the order the data flows: run_data, tables, formats, figures, verdict, findings, page; ``write_views`` makes all of
them, ``compare_runs`` holds two runs against each other.
"""
