"""Object stores: S3, Google Cloud Storage, Azure, web servers, and the memory of this process, by their URLs.

urls          which store a URL means, and how it is shown without what is secret
limits        how long an answer is waited for, and how many are asked for at once
failures      whether an error of a store passes, and what is said of one that does not
object_store  a store as zarr reads and writes it, with patience
transfer      whole files and folders from and to a store
"""
