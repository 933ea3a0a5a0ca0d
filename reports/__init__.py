"""Result files in, things people read out.

In the order the data flows: run_data, tables, formats, figures, verdict, findings, page; ``write_views`` makes what
every run's folder holds, ``asked_views`` any other table and the figures, ``compare_runs`` holds two runs against each
other.
"""
