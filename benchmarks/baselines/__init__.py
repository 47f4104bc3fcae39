"""The methods that the papers compare theirs with, each one short file on scikit-learn and scipy: for tables alone."""
