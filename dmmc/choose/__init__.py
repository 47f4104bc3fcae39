"""The label-free choice behind `auto`: which clustering, how many clusters, and whether there are any."""
