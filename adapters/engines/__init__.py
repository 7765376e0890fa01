"""What plugins of serving engines share: operators' settings, bounded compilers, warming.

Each engine has a package of its own beside this one, which is the only place that knows its names.
"""
