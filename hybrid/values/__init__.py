"""Values that every room uses: budgets, names of strategies, checks of arguments, the base class of
followers, the gather.
"""
