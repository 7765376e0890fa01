"""What every room knows: budgets, names of strategies, checks of arguments, what followers do, the gather."""
