"""Code that the plugins of serving engines share: operators' settings, bounded compilers, warm-up.

Each engine has its own package next to this one, and only that package knows the engine's names.
"""
