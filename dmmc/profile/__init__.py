"""What a fit has found, told in terms of the data: profiles and names of clusters, how sure each row's label is."""
