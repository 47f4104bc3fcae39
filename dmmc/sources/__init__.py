"""Files and tables as people have them, as sources of a fit.

paths          which files are meant: one, a folder of parquet files, a pattern
csv_tables     csv files as tables: kinds of columns, parts, and what is wrong in which line
parquet_tables parquet files as tables
readers        several files as one matrix; a prepared table as a matrix; a matrix in memory
cache          converted files that a later run finds again
open           any source to what `dmmc.data` opens, with the preparation of a table
"""
