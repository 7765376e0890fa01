"""Arrays and tables that compiled modules of several folders use: lists, records, hashes, sorting, UTF-8."""
