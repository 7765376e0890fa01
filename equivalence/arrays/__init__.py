"""What compiled modules of several folders share: numbered lists, hashes, sorting, growth, UTF-8."""
