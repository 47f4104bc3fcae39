"""Tables as people have them: numbers, categories, truth values and dates, some missing, made into a matrix.

columns      what each column of a table is, and how it becomes numbers
preparation  `TablePreparation`, the scikit-learn transformer that learns this from a table
"""
