"""The operations table: every verb of the product as one typed request with result, access and interfaces."""
